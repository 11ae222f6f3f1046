"""What the KV-link test found, and how UCX's own table is read."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

# Below these something is wrong with the path. A PCIe 5 x16 peer copy gives 38-56 GB/s (rtx6kpro topology.md, not
# measured by us); host memory on two busy cores gave 0.4-1.0 GB/s, and 0.1-0.3 over TCP.
SLOW = {"cuda": 8e9, "cpu": 0.1e9}  # bytes/s


@dataclass(frozen=True, slots=True)
class Pair:
    """One rank: prefill's memory written into decode's."""

    rank: int
    bytes_per_s: float
    transport: str | None  # UCX's words, e.g. "cuda_ipc/cuda" or "tcp/lo"
    wrong_pieces: int


@dataclass(frozen=True, slots=True)
class LinkReport:
    """The whole test. `error` is set when it could not be carried through."""

    device: str
    bytes_per_pair: int
    pairs: tuple[Pair, ...]
    error: str | None = None

    @property
    def corrupt(self) -> bool:
        """Whether a byte arrived wrong."""
        return any(pair.wrong_pieces for pair in self.pairs)

    @property
    def over_tcp(self) -> bool:
        """Whether any pair went over TCP."""
        return any("tcp/" in (pair.transport or "") for pair in self.pairs)  # "52% on tcp/lo and 48% on tcp/eth0" too

    @property
    def slowest(self) -> float | None:
        """Bytes/s of the slowest pair."""
        return min((pair.bytes_per_s for pair in self.pairs), default=None)

    @property
    def slow(self) -> bool:
        """Whether the slowest pair is below what any sound path gives."""
        return self.slowest is not None and self.slowest < SLOW[self.device]

    @property
    def transport(self) -> str | None:
        """The transports that UCX chose, each once."""
        return ", ".join(sorted({pair.transport for pair in self.pairs if pair.transport})) or None

    def text(self) -> str:
        """One line for a person."""
        if self.error:
            return self.error
        if self.corrupt:
            bad = [str(pair.rank) for pair in self.pairs if pair.wrong_pieces]
            return f"bytes arrived wrong on rank {', '.join(bad)}"
        speed = f"{(self.slowest or 0.0) / 1e9:.2f} GB/s"
        return f"{len(self.pairs)} rank pairs, every byte right, {speed} or more over {self.transport}"

    def to_json(self) -> str:
        """For run_dir/link.json, which `/status` shows."""
        values = asdict(self) | {
            "ok": not (self.error or self.corrupt),
            "slow": self.slow,
            "over_tcp": self.over_tcp,
            "bytes_per_s": self.slowest,
            "transport": self.transport,
            "text": self.text(),
        }
        return json.dumps(values, indent=2) + "\n"


def chosen_transport(log: str) -> str | None:
    """UCX's choice for large remote writes, from the tables that UCX_PROTO_INFO=y logs.

    >>> chosen_transport('''
    ... |  remote memory write by ucp_put* from host memory to host  |
    ... +--------+--------------+------------+
    ... | Range  | Description  |   Config   |
    ... +--------+--------------+------------+
    ... | 0..2K  | short        | tcp/lo     |
    ... | 2K..inf | zero-copy   | cma/memory |
    ... +--------+--------------+------------+''')
    'cma/memory'
    """
    _, found, rest = log.rpartition("remote memory write by ucp_put")
    rows = re.findall(r"\|\s*\S*\.\.inf\s*\|[^|]*\|\s*([^|]+?)\s*\|", rest) if found else []
    return rows[0] if rows else None
