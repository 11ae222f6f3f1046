"""MHC post and pre, one sublayer boundary, against the engine's TileLang path (its default on sm_120)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.mhc_post_pre.op import Boundary, mhc_post_pre
from dsv4_kernels.mhc_post_pre.reference import Constants, mhc_post_pre_reference
from dsv4_kernels.testing import MhcInputs, relative_error

from benchmarks import peers
from benchmarks.results import Results, gate
from benchmarks.timing import INPUT_SETS, median_us

TOKENS = (9, 16, 24, 31, 32, 33, 48, 64)
EPS = 1e-6
CONSTANTS = Constants()


def tensors(case: MhcInputs) -> list[torch.Tensor]:
    return [case.x, case.residual, case.post, case.comb, case.fn, case.scale, case.base, case.norm_weight]


def ours(case: MhcInputs) -> Boundary:
    return mhc_post_pre(
        *tensors(case), rms_eps=EPS, pre_eps=EPS, sinkhorn_eps=EPS, post_mult=2.0, iterations=20, norm_eps=EPS
    )


def engine_call(module: Any, case: MhcInputs) -> Any:
    *most, norm = tensors(case)
    return module.mhc_fused_post_pre(*most, EPS, EPS, EPS, 2.0, 20, norm_weight=norm, norm_eps=EPS)


def errors(case: MhcInputs, residual: torch.Tensor, comb: torch.Tensor, layer_input: torch.Tensor) -> list[float]:
    x, before, post, mixes, fn, scale, base, norm = tensors(case)
    _, _, expected_comb, expected_input = mhc_post_pre_reference(
        x, before, post, mixes, fn, scale, base, norm, CONSTANTS, residual
    )
    comb_error = relative_error(comb.reshape(expected_comb.shape), expected_comb)
    return [gate(relative_error(layer_input, expected_input), 5e-3, "layer input"), gate(comb_error, 1e-3, "comb")]


def bench(results: Results, generator: torch.Generator, engine: Path) -> None:
    stock = None
    if not results.alone and peers.optional("tilelang") is not None:
        stock = peers.load_engine_file(engine, peers.TILELANG_MHC)
    for tokens in TOKENS:
        cases = [testing.mhc_inputs(tokens, generator) for _ in range(INPUT_SETS)]
        out = ours(cases[0])
        found = errors(cases[0], out.residual, out.comb, out.layer_input)
        us = median_us([partial(ours, case) for case in cases])
        results.write(op="mhc", T=tokens, impl=results.ours, us=us, err=found)
        if stock is not None:
            residual, _, comb, layer_input = engine_call(stock, cases[0])
            found = errors(cases[0], residual, comb, layer_input)
            us = median_us([partial(engine_call, stock, case) for case in cases])
            results.write(op="mhc", T=tokens, impl="sglang-tilelang", us=us, err=found)
        size = 4 * layout.HC_MIXES * 4 * layout.HIDDEN + tokens * 2 * layout.HIDDEN * (1 + 4 + 4 + 4 + 1)
        results.write(op="mhc", T=tokens, impl="floor", us=results.floor_us(size))
