"""What crossed the KV link, by the engines' own counters. The engine's names say mb and gb_s; its figures are MiB and
GiB/s. Ours are bytes, everywhere. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

_MIB, _GIB = 2.0**20, 2.0**30


@dataclass(frozen=True, slots=True)
class KvLink:
    """Since the senders' start, or between two readings."""

    transfers: float
    bytes: float
    bytes_per_s: float | None  # mean of the transfers' own speeds; None: none was timed

    def document(self) -> dict[str, Any]:
        """As /status and /load show it."""
        return asdict(self)


def link_of(total: Callable[[str], float]) -> KvLink:
    """The link, from a reader of counters by name that gives 0 for one that is not there.

    >>> counters = {"sglang:kv_transfer_total_mb_count": 4.0, "sglang:kv_transfer_total_mb_sum": 2.0,
    ...             "sglang:kv_transfer_speed_gb_s_count": 4.0, "sglang:kv_transfer_speed_gb_s_sum": 6.0}
    >>> link_of(lambda name: counters.get(name, 0.0))
    KvLink(transfers=4.0, bytes=2097152.0, bytes_per_s=1610612736.0)
    """
    timed = total("sglang:kv_transfer_speed_gb_s_count")
    return KvLink(
        transfers=total("sglang:kv_transfer_total_mb_count"),
        bytes=total("sglang:kv_transfer_total_mb_sum") * _MIB,
        bytes_per_s=total("sglang:kv_transfer_speed_gb_s_sum") / timed * _GIB if timed > 0 else None,
    )
