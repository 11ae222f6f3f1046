"""Sparse MLA decode, one c4 layer: 128 sliding-window and 512 compressed keys a row, pools of 153 MB each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.sparse_mla_decode.op import sparse_mla_decode
from dsv4_kernels.sparse_mla_decode.reference import Scope, sparse_mla_reference
from dsv4_kernels.sparse_mla_decode.tiling import choose_tiling
from dsv4_kernels.testing import SparseMlaInputs, relative_error

from benchmarks import peers
from benchmarks.results import Results, gate
from benchmarks.timing import INPUT_SETS, median_us

HEADS, BATCHES = (16, 64), (1, 8, 16, 32, 64)
MAIN_PAGES, EXTRA_PAGES = 1024, 4096
CHECKED_ROWS = 4
TOLERANCE = 5e-3


def inputs(
    batch: int, heads: int, pools: tuple[torch.Tensor, torch.Tensor], generator: torch.Generator
) -> SparseMlaInputs:
    """Random queries and tokens over shared pools several times the L2."""
    made = testing.sparse_mla_inputs(batch, heads, 128, 512, generator, main_pages=1, extra_pages=1)
    made.k_cache, made.extra_k_cache = pools
    made.indices = testing.spread_indices(batch, 128, MAIN_PAGES * layout.SWA_PAGE, generator)
    made.extra_indices = testing.spread_indices(batch, 512, EXTRA_PAGES * layout.C4_PAGE, generator)
    return made


def ours(case: SparseMlaInputs, out: torch.Tensor | None = None) -> torch.Tensor:
    return sparse_mla_decode(
        case.q, case.k_cache, case.indices, case.topk_length, case.attn_sink, case.softmax_scale,
        case.extra_k_cache, case.extra_indices, case.extra_topk_length, out=out,
    )  # fmt: skip


def expected(case: SparseMlaInputs) -> torch.Tensor:
    rows = slice(0, CHECKED_ROWS)
    main = Scope(case.k_cache, case.indices[rows], case.topk_length[rows])
    extra = Scope(case.extra_k_cache, case.extra_indices[rows], case.extra_topk_length[rows])
    return sparse_mla_reference(case.q[rows], main, extra, case.attn_sink, case.softmax_scale)


def fallback(module: Any, case: SparseMlaInputs) -> torch.Tensor:
    out, _ = module.flash_mla_sparse_decode_triton(
        case.q, case.k_cache, case.indices, case.topk_length, case.attn_sink, layout.HEAD_DIM, case.softmax_scale,
        case.extra_k_cache, case.extra_indices, case.extra_topk_length,
    )  # fmt: skip
    return out


def flashmla(module: Any, case: SparseMlaInputs) -> Callable[[], torch.Tensor]:
    """Takes 64 heads only: fewer are padded before the clock starts. The first call makes its schedule."""
    batch, _, heads, dim = case.q.shape
    q = torch.zeros((batch, 1, 64, dim), dtype=case.q.dtype, device=case.q.device)
    q[:, :, :heads] = case.q
    sink = torch.zeros(64, device=case.q.device)
    sink[:heads] = case.attn_sink
    schedule = module.get_mla_metadata()[0]

    def call() -> torch.Tensor:
        return module.flash_mla_with_kvcache(
            q=q, k_cache=case.k_cache, block_table=None, cache_seqlens=None, head_dim_v=dim,
            tile_scheduler_metadata=schedule, softmax_scale=case.softmax_scale, is_fp8_kvcache=True,
            indices=case.indices, attn_sink=sink, extra_k_cache=case.extra_k_cache,
            extra_indices_in_kvcache=case.extra_indices, topk_length=case.topk_length,
            extra_topk_length=case.extra_topk_length,
        )[0]  # fmt: skip

    call()
    return call


def bench(results: Results, generator: torch.Generator, engine: Path) -> None:
    pools = (
        testing.attention_cache(MAIN_PAGES, layout.SWA_PAGE, generator),
        testing.attention_cache(EXTRA_PAGES, layout.C4_PAGE, generator),
    )
    stock = peers.load_engine_file(engine, peers.FALLBACK_MLA)
    vendor = peers.optional("sgl_kernel.flash_mla")
    for heads in HEADS:
        for batch in BATCHES:
            cases = [inputs(batch, heads, pools, generator) for _ in range(INPUT_SETS)]
            key = {"op": "sparse_mla", "B": batch, "H": heads}
            reference = expected(cases[0])
            poisoned = torch.full(cases[0].q.shape, float("nan"), dtype=torch.bfloat16, device=generator.device)
            error = gate(relative_error(ours(cases[0], poisoned)[:CHECKED_ROWS], reference), TOLERANCE, "ours")
            tiling = choose_tiling(batch, heads, 128, 512)
            shape = [tiling.block_h, tiling.block_n, tiling.num_warps, tiling.splits]
            us = median_us([lambda case=case: ours(case) for case in cases])
            results.write(**key, impl="dsv4", tiling=shape, us=us, err=error)
            us = median_us([lambda case=case: fallback(stock, case) for case in cases], 5)
            results.write(**key, impl="sglang-triton-fallback", us=us)
            if vendor is not None:
                calls = [flashmla(vendor, case) for case in cases]
                gate(relative_error(calls[0]()[:CHECKED_ROWS, :, :heads], reference), TOLERANCE, "FlashMLA")
                results.write(**key, impl="flashmla", us=median_us(calls))
            size = batch * (640 * layout.ENTRY_BYTES + heads * 4 * layout.HEAD_DIM)
            results.write(**key, impl="floor", us=results.floor_us(size))
