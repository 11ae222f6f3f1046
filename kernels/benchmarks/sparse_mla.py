"""Sparse MLA decode, one layer: 128 sliding-window keys and up to 512 compressed ones a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.sparse_mla_decode.op import sparse_mla_decode
from dsv4_kernels.sparse_mla_decode.reference import Scope, sparse_mla_reference
from dsv4_kernels.testing import SparseMlaInputs, relative_error

from benchmarks import peers
from benchmarks.results import Results, gate
from benchmarks.timing import INPUT_SETS, REPLAYS, SLOW_REPLAYS, median_us

MAIN_PAGES = 1024
CHECKED_ROWS = 4
TOLERANCE = 5e-3


@dataclass(frozen=True, slots=True)
class Layer:
    """Width of the second cache's table, how many of it are keys, and its pool."""

    page_size: int
    width: int
    length: int
    pages: int


# c128: 64k tokens of context in a table for 1M, as a captured graph has it
LAYERS = {
    "c4": Layer(layout.C4_PAGE, 512, 512, 4096),
    "c128": Layer(layout.C128_PAGE, 8192, 512, 1 << 16),
    "swa": Layer(layout.C4_PAGE, 0, 0, 1),
}
HEADS, BATCHES = (16, 32, 64), (1, 8, 16, 32, 64)
PREFILL_BATCHES = (128, 512)
CASES = (
    *(("c4", heads, batch) for heads in HEADS for batch in BATCHES),
    *(("c4", 16, batch) for batch in PREFILL_BATCHES),
    *((layer, 16, batch) for layer in ("c128", "swa") for batch in (1, 8, 64)),
)
TRITON_CASES = (("c4", 16, 1), ("c4", 16, 8), ("c4", 16, 64), ("c4", 64, 1), ("c4", 64, 64))  # autotuned: slow to start


def pool(layer: Layer, generator: torch.Generator) -> torch.Tensor:
    return testing.attention_cache(layer.pages, layer.page_size, generator)


def inputs(
    batch: int, heads: int, layer: Layer, pools: tuple[torch.Tensor, torch.Tensor], generator: torch.Generator
) -> SparseMlaInputs:
    """Random queries and tokens over shared pools several times the L2."""
    made = testing.sparse_mla_inputs(batch, heads, 128, layer.width, generator, main_pages=1, extra_pages=1)
    made.k_cache = pools[0]
    made.indices = testing.spread_indices(batch, 128, pools[0].shape[0] * layout.SWA_PAGE, generator)
    if layer.width:
        made.extra_k_cache = pools[1]
        assert made.extra_indices is not None and made.extra_topk_length is not None  # a second cache was asked for
        made.extra_indices = torch.full_like(made.extra_indices, -1)
        tokens = pools[1].shape[0] * layer.page_size
        made.extra_indices[:, :, : layer.length] = testing.spread_indices(batch, layer.length, tokens, generator)
        made.extra_topk_length.fill_(layer.length)
    return made


def ours(case: SparseMlaInputs, out: torch.Tensor | None = None) -> torch.Tensor:
    return sparse_mla_decode(
        case.q, case.k_cache, case.indices, case.topk_length, case.attn_sink, case.softmax_scale,
        case.extra_k_cache, case.extra_indices, case.extra_topk_length, out=out,
    )  # fmt: skip


def expected(case: SparseMlaInputs) -> torch.Tensor:
    rows = slice(0, CHECKED_ROWS)
    assert case.topk_length is not None
    main = Scope(case.k_cache, case.indices[rows], case.topk_length[rows])
    extra = None
    if case.extra_k_cache is not None and case.extra_indices is not None and case.extra_topk_length is not None:
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

    return call


def triton_dual_scope(module: Any, case: SparseMlaInputs) -> Callable[[], torch.Tensor]:
    """The engine's own tensor-core kernels of this layout, which it runs on AMD cards only."""
    batch, _, heads, dim = case.q.shape
    extra_indices = case.extra_indices
    assert extra_indices is not None

    def call() -> torch.Tensor:
        out, _ = module.fused_gather_attn_decode_dsv4_dual_scope_low_overhead(
            case.q.view(batch, heads, dim), case.k_cache, case.indices.view(batch, -1), layout.SWA_PAGE,
            case.extra_k_cache, extra_indices.view(batch, -1), layout.C4_PAGE, case.softmax_scale,
            case.topk_length, case.extra_topk_length, case.attn_sink,
        )  # fmt: skip
        return out.view(batch, 1, heads, dim)

    return call


def peer_calls(engine: Path, name: tuple[str, int, int], cases: list[SparseMlaInputs]) -> dict[str, list[Any]]:
    stock = peers.load_engine_file(engine, peers.FALLBACK_MLA)
    found: dict[str, list[Any]] = {"sglang-triton-fallback": [partial(fallback, stock, case) for case in cases]}
    if name in TRITON_CASES:
        dual = peers.load_engine_file(engine, peers.TRITON_MLA)
        found["sglang-triton-dual-scope"] = [triton_dual_scope(dual, case) for case in cases]
    vendor = peers.optional("sgl_kernel.flash_mla")
    if vendor is not None:
        found["flashmla"] = [flashmla(vendor, case) for case in cases]
    return found


def bench(results: Results, generator: torch.Generator, engine: Path) -> None:
    main = testing.attention_cache(MAIN_PAGES, layout.SWA_PAGE, generator)
    pools = {name: (main, pool(layer, generator)) for name, layer in LAYERS.items()}
    for name, heads, batch in CASES:
        cases = [inputs(batch, heads, LAYERS[name], pools[name], generator) for _ in range(INPUT_SETS)]
        key = {"op": "sparse_mla", "layer": name, "B": batch, "H": heads}
        reference = expected(cases[0])
        poisoned = torch.full(cases[0].q.shape, float("nan"), dtype=torch.bfloat16, device=generator.device)
        error = gate(relative_error(ours(cases[0], poisoned)[:CHECKED_ROWS], reference), TOLERANCE, "ours")
        us = median_us([partial(ours, case) for case in cases])
        results.write(**key, impl=results.ours, us=us, err=error)
        calls = {} if results.alone else peer_calls(engine, (name, heads, batch), cases)
        for peer, functions in calls.items():
            measure_peer(results, key | {"impl": peer}, functions, reference, heads)
        size = batch * ((128 + LAYERS[name].length) * layout.ENTRY_BYTES + heads * 4 * layout.HEAD_DIM)
        results.write(**key, impl="floor", us=results.floor_us(size))


def measure_peer(results: Results, key: dict[str, Any], calls: list[Any], reference: torch.Tensor, heads: int) -> None:
    """A peer that does not run a shape here is written down as such: it takes no part, and hides nothing."""
    try:
        error = relative_error(calls[0]()[:CHECKED_ROWS, :, :heads], reference)
        for call in calls[1:]:  # FlashMLA makes the schedule of each at its first call
            call()
    except (RuntimeError, AssertionError, ValueError) as reason:
        results.write(**key, us=None, reason=str(reason)[:200])
        return
    gate(error, TOLERANCE, key["impl"])
    results.write(**key, us=median_us(calls, SLOW_REPLAYS if "fallback" in key["impl"] else REPLAYS), err=error)
