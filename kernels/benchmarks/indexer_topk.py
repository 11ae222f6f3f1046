"""Fused indexer and top-k against the engine's and DeepGEMM's logits, each followed by the engine's own top-k."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.indexer_logits.op import indexer_logits
from dsv4_kernels.indexer_topk.op import indexer_topk
from dsv4_kernels.indexer_topk.reference import indexer_topk_errors
from dsv4_kernels.testing import IndexerInputs

from benchmarks import peers
from benchmarks.indexer import POOL_PAGES, TOKENS_A_KEY, inputs, logits_peers
from benchmarks.results import Results, gate
from benchmarks.timing import INPUT_SETS, median_us

TOLERANCE = 2e-3
CASES = (
    (8_192, 512, 64),
    (1_048_576, 512, 64),
    (8_192, 8_192, 1),
    (8_192, 8_192, 64),
    (32_768, 32_768, 1),
    (32_768, 32_768, 64),
    (65_536, 65_536, 1),
    (65_536, 65_536, 8),
    (65_536, 65_536, 64),
    (524_288, 524_288, 1),
    (524_288, 524_288, 8),
    (524_288, 524_288, 64),
    (1_048_576, 1_048_576, 1),
)


def check(case: IndexerInputs, raw: torch.Tensor, what: str) -> float:
    last = slice(case.q.shape[0] - 1, None)
    rows = case.q[last], case.kv, case.weights[last], case.seq_lens[last], case.page_table[last]
    return gate(indexer_topk_errors(*rows, raw[last])[0], TOLERANCE, what)


def ours(case: IndexerInputs, out: torch.Tensor, raw: torch.Tensor | None = None, **options: Any) -> None:
    indexer_topk(case.q, case.kv, case.weights, case.seq_lens, case.page_table, out=out, raw=raw, **options)


def two_steps(case: IndexerInputs, logits: Callable[[], torch.Tensor], topk: Any, out: torch.Tensor) -> None:
    topk(logits(), case.seq_lens, case.page_table, out, layout.INDEX_PAGE, None)


def own_logits(scores: torch.Tensor, case: IndexerInputs, width: int) -> Callable[[], torch.Tensor]:
    """Our scores for the engine's top-k, which takes rows of up to 512 keys unseen."""
    rows = case.q, case.kv, case.weights, case.seq_lens, case.page_table
    return partial(indexer_logits, *rows, width, out=scores, skip_identity=True)


def poisoned(batch: int) -> torch.Tensor:
    return torch.full((batch, layout.INDEX_TOPK), -7, dtype=torch.int32, device="cuda")


def bench(results: Results, generator: torch.Generator, engine: Path) -> None:
    pool = testing.index_cache(POOL_PAGES, generator)
    found = {} if results.alone else logits_peers(engine)
    stock = {name: make for name, make in found.items() if name != "sglang-torch-fallback"}
    topk = None if results.alone else peers.build_topk(engine)
    for maximum, context, batch in CASES:
        sets = INPUT_SETS if batch * context < 1 << 23 else 2
        cases = [inputs(maximum, context, batch, pool, generator) for _ in range(sets)]
        key = {"op": "indexer_topk", "max_context": maximum, "context": context, "B": batch}
        bench_case(results, key, cases, stock, topk)
        results.write(**key, impl="floor", us=results.floor_us(batch * context / TOKENS_A_KEY * layout.INDEX_KEY_BYTES))


def bench_case(
    results: Results, key: dict[str, Any], cases: list[IndexerInputs], stock: dict[str, Any], topk: Any
) -> None:
    first, width = cases[0], cases[0].max_seq_len
    out, raw = poisoned(key["B"]), poisoned(key["B"])
    ours(first, out, raw)
    error = check(first, raw, "ours")
    results.write(**key, impl=results.ours, us=median_us([partial(ours, case, out) for case in cases]), err=error)
    if topk is None:
        return
    scores = torch.empty((key["B"], width), device=out.device)
    for name, make in {"dsv4-logits": partial(own_logits, scores), **stock}.items():
        calls = [make(case, width) for case in cases]
        topk(calls[0](), first.seq_lens, first.page_table, out, layout.INDEX_PAGE, raw)
        error = check(first, raw, name)
        both = [partial(two_steps, case, call, topk, out) for case, call in zip(cases, calls, strict=True)]
        results.write(**key, impl=f"{name}+topk", us=median_us(both), err=error)
    own_logits(scores, first, width)()
    alone = [partial(topk, scores, case.seq_lens, case.page_table, out, layout.INDEX_PAGE, None) for case in cases]
    results.write(**key, impl="sglang-topk-alone", us=median_us(alone))
