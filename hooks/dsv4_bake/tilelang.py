"""Compile the engine's TileLang kernels for sm_120, without a card: the engine's own calls on tensors without memory.

    python -m dsv4_bake.tilelang CACHE [--only indexer mhc sinkhorn]

TileLang's key holds the program's text, the target, its flags and its version. Prints what it built; a second run must
print 0. Heads do not count: the indexer's 64 are not split among the ranks of a tensor-parallel server.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dsv4_bake import card, listed

HIDDEN, STREAMS, MIXES = 4096, 4, 24  # DeepSeek-V4-Flash: width, residual streams, mixes of a boundary
INDEX_HEADS, INDEX_DIM = 64, 128
CORES = 256  # tilelang_fp8_paged_mqa_logits divides this by the rows of a batch
TOKENS = (1, 8, 33)  # one for each branch of mhc_fused_post_pre: below 8, up to 32, above


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the engine's TileLang kernels for sm_120.")
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", nargs="+", default=[], choices=sorted(CALLS))
    options = parser.parse_args()
    folder = options.cache / "tilelang"
    os.environ["TILELANG_CACHE_DIR"] = str(folder)
    card.stand_in()
    compile_only()
    before, begun = entries(folder), time.monotonic()
    wanted = dict.fromkeys(row["call"] for row in listed.rows(listed.FILE, "tilelang"))
    for name in options.only or wanted:
        CALLS[name]()
    have = entries(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    print(
        f"tilelang: {len(have - before)} kernels built in {time.monotonic() - begun:.0f} s, {len(have)}, {size:.1f} MB"
    )
    return 0


def compile_only() -> None:
    """Calls of kernels compile from here on, and run nothing."""
    from tilelang.jit import JITImpl

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.mode == "auto":
            self.mode = self._infer_jit_mode(*args, **kwargs)
            self.func.set_mode(self.mode)
        kernel = self.compile(*args, **kwargs)
        return kernel if self.mode == "lazy" else None

    JITImpl.__call__ = call


def empty(*shape: int, dtype: str = "float32") -> Any:
    import torch

    return torch.empty(shape, dtype=getattr(torch, dtype), device="meta")


def splits() -> list[int]:
    """The cores' share of each batch whose graph is captured without speculative decoding, of up to 256 requests.

    Left out: 17 more that speculative decoding captures, and those of a short table of pages.

    >>> splits()
    [1, 2, 3, 4, 5, 6, 8, 10, 16, 21, 32, 64, 128, 256]
    """
    return sorted({max(1, CORES // rows) for rows in (1, 2, 4, 8, 12, *range(16, CORES + 1, 8))})


def indexer() -> None:
    from sglang.kernels.ops.attention.dsa.tilelang_kernel import fp8_paged_mqa_logits_kernel

    rows, pages, table = 2, 4, 8
    tensors = (
        empty(rows, INDEX_HEADS, INDEX_DIM, dtype="float8_e4m3fn"), empty(pages, 64 * (INDEX_DIM + 4), dtype="uint8"),
        empty(rows, INDEX_HEADS), empty(rows, dtype="int32"), empty(rows, table, dtype="int32"),
        empty(rows, 64 * table),
    )  # fmt: skip
    for split in splits():
        kernel = fp8_paged_mqa_logits_kernel(
            head_dim=INDEX_DIM, num_heads=INDEX_HEADS, block_size=64, clear_accum=False, split_kv=split
        )
        kernel(*tensors)


def mhc() -> None:
    from sglang.kernels.ops.layernorm import mhc as engine

    engine.use_symmetric_memory = lambda *_, **__: contextlib.nullcontext()
    engine.get_parallel = lambda: SimpleNamespace(tp_group=None)
    engine.is_allocation_symmetric = lambda: True
    engine.is_dsa_prefill_cp_interleave = lambda: False
    # The last boundary's step alone; up to 256 tokens it has another shape, above them that of the fused one.
    engine.mhc_post(
        empty(1, HIDDEN, dtype="bfloat16"), empty(1, STREAMS, HIDDEN, dtype="bfloat16"), empty(1, STREAMS, 1),
        empty(1, STREAMS, STREAMS),
    )  # fmt: skip
    for tokens in TOKENS:
        engine.mhc_fused_post_pre(
            empty(tokens, HIDDEN, dtype="bfloat16"), empty(tokens, STREAMS, HIDDEN, dtype="bfloat16"),
            empty(tokens, STREAMS, 1), empty(tokens, STREAMS, STREAMS), empty(MIXES, STREAMS * HIDDEN), empty(3),
            empty(MIXES), 1e-6, 1e-6, 1e-6, 2.0, 20,
            norm_weight=empty(HIDDEN, dtype="bfloat16"), norm_eps=1e-6,
        )  # fmt: skip


def sinkhorn() -> None:
    from sglang.kernels.ops.layernorm import mhc as engine

    engine.hc_split_sinkhorn_kernel(STREAMS, 20, 1e-6)  # compiles when it is made, not when it is called


CALLS: dict[str, Callable[[], None]] = {"indexer": indexer, "mhc": mhc, "sinkhorn": sinkhorn}


def entries(folder: Path) -> set[Path]:
    return set(folder.glob("*/*/kernels/*"))


if __name__ == "__main__":
    raise SystemExit(main())
