"""MHC post and pre against the float64 reference: token counts at the edges, determinism, weights at fp32 quality."""

from __future__ import annotations

import pytest
import torch
from dsv4_kernels import layout, testing
from dsv4_kernels.mhc_post_pre.op import Boundary, mhc_post_pre
from dsv4_kernels.mhc_post_pre.reference import Constants, mhc_post_pre_reference, post_residual
from dsv4_kernels.mhc_post_pre.tiling import TILING, Tiling
from dsv4_kernels.testing import MhcInputs, relative_error

FEW_SPLITS = Tiling(1024, 4)  # the interpreter runs a program at a time
CONSTANTS = Constants()


def run(inputs: MhcInputs, tiling: Tiling = TILING, norm: bool = True, iterations: int = 20) -> Boundary:
    return mhc_post_pre(
        inputs.x,
        inputs.residual,
        inputs.post,
        inputs.comb,
        inputs.fn,
        inputs.scale,
        inputs.base,
        inputs.norm_weight if norm else None,
        rms_eps=CONSTANTS.rms_eps,
        pre_eps=CONSTANTS.pre_eps,
        sinkhorn_eps=CONSTANTS.sinkhorn_eps,
        post_mult=CONSTANTS.post_mult,
        iterations=iterations,
        norm_eps=CONSTANTS.norm_eps,
        tiling=tiling,
    )


def check(inputs: MhcInputs, out: Boundary, tolerance: float, norm: bool = True) -> None:
    values = inputs.x, inputs.residual, inputs.post, inputs.comb, inputs.fn, inputs.scale, inputs.base
    weight = inputs.norm_weight if norm else None
    assert relative_error(out.residual, post_residual(*values[:4])) < tolerance
    _, post, comb, layer_input = mhc_post_pre_reference(*values, weight, CONSTANTS, out.residual)
    # fp32 quality: two bf16 parts of a weight keep 16 bits of its mantissa
    assert relative_error(out.post[..., 0], post) < 2e-5
    assert relative_error(out.comb, comb) < 2e-5
    assert relative_error(out.layer_input, layer_input) < tolerance


@pytest.mark.parametrize("tokens", [1, 9, 17])
def test_tokens(generator: torch.Generator, tolerance: float, tokens: int) -> None:
    inputs = testing.mhc_inputs(tokens, generator)
    check(inputs, run(inputs, FEW_SPLITS), tolerance)


def test_without_norm(generator: torch.Generator, tolerance: float) -> None:
    inputs = testing.mhc_inputs(2, generator)
    check(inputs, run(inputs, FEW_SPLITS, norm=False), tolerance, norm=False)


def test_no_tokens(generator: torch.Generator) -> None:
    out = run(testing.mhc_inputs(0, generator))
    assert out.residual.shape == (0, layout.HC_MULT, layout.HIDDEN)
    assert out.layer_input.dtype == torch.bfloat16
    assert out.post.dtype == out.comb.dtype == torch.float32


def test_the_comb_is_doubly_stochastic(generator: torch.Generator) -> None:
    comb = run(testing.mhc_inputs(3, generator), FEW_SPLITS).comb
    assert (comb.sum(1) - 1).abs().max() < 1e-4
    assert (comb.sum(2) - 1).abs().max() < 1e-3


def test_two_runs_are_bit_equal(generator: torch.Generator) -> None:
    inputs = testing.mhc_inputs(9, generator)
    one, two = run(inputs, FEW_SPLITS), run(inputs, FEW_SPLITS)
    for name in Boundary.__slots__:
        assert torch.equal(getattr(one, name), getattr(two, name)), name


def test_large_mixes_do_not_overflow(generator: torch.Generator) -> None:
    inputs = testing.mhc_inputs(2, generator)
    inputs.scale.fill_(60.0)
    out = run(inputs, FEW_SPLITS)
    for name in Boundary.__slots__:
        assert getattr(out, name).isfinite().all(), name


def test_the_layer_input_may_be_given(generator: torch.Generator) -> None:
    inputs = testing.mhc_inputs(1, generator)
    mine = torch.full_like(inputs.x, float("nan"))
    args = (inputs.x, inputs.residual, inputs.post, inputs.comb, inputs.fn, inputs.scale, inputs.base)
    out = mhc_post_pre(
        *args, None, rms_eps=1e-6, pre_eps=1e-6, sinkhorn_eps=1e-6, post_mult=2.0, iterations=2, norm_eps=1e-6,
        tiling=FEW_SPLITS, layer_input=mine,
    )  # fmt: skip
    assert out.layer_input is mine
    assert mine.isfinite().all()


@pytest.mark.parametrize("tokens", [9, 16, 17, 33, 64])
def test_tiling_table(tokens: int) -> None:
    assert TILING.splits * -(-tokens // TILING.block_t) == 64 * -(-tokens // 16), "blocks of the first kernel"
    assert TILING.slice_size % (TILING.mix_warps * TILING.block_k) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 8, 9, 15, 16, 17, 32, 33, 48, 63, 64, 100])
def test_full_size(generator: torch.Generator, tolerance: float, tokens: int) -> None:
    inputs = testing.mhc_inputs(tokens, generator)
    check(inputs, run(inputs), tolerance)
