"""Indexer logits: contexts of 512 to 524,288 tokens in tables of 8k to 1M, pages drawn from a pool of 1.1 GB."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.indexer_logits.op import indexer_logits
from dsv4_kernels.indexer_logits.reference import indexer_logits_reference
from dsv4_kernels.testing import IndexerInputs, relative_error

from benchmarks import peers
from benchmarks.results import Results, gate
from benchmarks.timing import INPUT_SETS, REPLAYS, SLOW_REPLAYS, median_us

POOL_PAGES = 1 << 17
TOKENS_A_KEY = 4
TOLERANCE = 5e-3  # the torch fallback rounds to bf16
CASES = (
    (8_192, 512, 64),
    (524_288, 512, 1),
    (524_288, 512, 64),
    (1_048_576, 512, 64),
    *((524_288, context, batch) for context in (4_096, 8_192, 32_768) for batch in (1, 8, 16, 32, 64)),
    *((65_536, 65_536, batch) for batch in (1, 8, 32, 64)),
    *((524_288, 524_288, batch) for batch in (1, 8, 32, 64)),
)


def inputs(maximum: int, context: int, batch: int, pool: torch.Tensor, generator: torch.Generator) -> IndexerInputs:
    """Pages are distinct as far as the pool reaches."""
    keys = context // TOKENS_A_KEY
    made = testing.indexer_inputs([1] * batch, maximum // TOKENS_A_KEY // layout.INDEX_PAGE, 1, generator)
    pages = max(1, keys // layout.INDEX_PAGE)
    order = torch.randperm(POOL_PAGES, generator=generator, device=generator.device)
    ids = order[torch.arange(batch * pages, device=generator.device) % POOL_PAGES]
    made.page_table[:, :pages] = ids.view(batch, pages).int()
    made.seq_lens.fill_(keys)
    made.kv = pool
    return made


def run(function: Any, case: IndexerInputs, *rest: Any, **options: Any) -> torch.Tensor:
    return function(case.q, case.kv, case.weights, case.seq_lens, case.page_table, *rest, **options)


def check(case: IndexerInputs, scores: torch.Tensor, what: str) -> float:
    last = slice(case.q.shape[0] - 1, None)
    rows = case.q[last], case.kv, case.weights[last], case.seq_lens[last], case.page_table[last]
    reference = indexer_logits_reference(*rows)[0]
    return gate(relative_error(scores[-1, : reference.numel()], reference), TOLERANCE, what)


def bench(results: Results, generator: torch.Generator, engine: Path) -> None:
    pool = testing.index_cache(POOL_PAGES, generator)
    stock = {} if results.alone else logits_peers(engine)
    for maximum, context, batch in CASES:
        sets = INPUT_SETS if batch * context < 1 << 23 else 2  # the larger ones pass the L2 by themselves
        cases = [inputs(maximum, context, batch, pool, generator) for _ in range(sets)]
        key = {"op": "indexer", "max_context": maximum, "context": context, "B": batch}
        bench_case(results, key, cases, stock)
        results.write(**key, impl="floor", us=results.floor_us(batch * context / TOKENS_A_KEY * layout.INDEX_KEY_BYTES))


def logits_peers(engine: Path) -> dict[str, Any]:
    """Callables (case, width) → logits, by name; DeepGEMM's makes its schedule before the clock starts."""
    torch_fallback = peers.load_engine_file(engine, peers.TORCH_INDEXER).fp8_paged_mqa_logits_torch_sm120
    found = {"sglang-torch-fallback": partial(engine_call, torch_fallback)}
    if peers.optional("tilelang") is not None:
        module = peers.load_engine_file(engine, peers.TILELANG_INDEXER)
        found["sglang-tilelang"] = partial(engine_call, module.tilelang_fp8_paged_mqa_logits)
    vendor = peers.optional("deep_gemm")
    if vendor is not None:
        found["deepgemm"] = partial(deep_gemm_call, vendor)
    return found


def engine_call(function: Any, case: IndexerInputs, width: int) -> Any:
    return partial(run, function, case, None, width, False)


def bench_case(results: Results, key: dict[str, Any], cases: list[IndexerInputs], stock: dict[str, Any]) -> None:
    first, width = cases[0], cases[0].max_seq_len
    out = torch.full((key["B"], width), float("nan"), device=first.q.device)
    run(indexer_logits, first, width, out=out)
    error = check(first, out, "ours")
    us = median_us([partial(run, indexer_logits, case, width, out=out) for case in cases])
    results.write(**key, impl=results.ours, us=us, err=error)
    us = median_us([partial(run, indexer_logits, case, width, out=out, skip_identity=True) for case in cases])
    results.write(**key, impl=f"{results.ours}-skip-identity", us=us)
    for name, make in stock.items():
        calls = [make(case, width) for case in cases]
        error = check(first, calls[0](), name)
        results.write(**key, impl=name, us=median_us(calls, SLOW_REPLAYS if "torch" in name else REPLAYS), err=error)


def deep_gemm_call(vendor: Any, case: IndexerInputs, width: int) -> Any:
    lengths = case.seq_lens.view(-1, 1)
    schedule = vendor.get_paged_mqa_logits_metadata(
        lengths, layout.INDEX_PAGE, torch.cuda.get_device_properties(0).multi_processor_count
    )
    arguments = case.q, case.kv, case.weights, lengths, case.page_table, schedule, width, False
    return lambda: vendor.fp8_paged_mqa_logits(*arguments)
