"""MHC post and pre across a sublayer boundary: assert the layout, allocate, launch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dsv4_kernels import layout
from dsv4_kernels.mhc_post_pre.kernel import mhc_finish_kernel, mhc_mix_kernel
from dsv4_kernels.mhc_post_pre.tiling import TILING, Tiling

MIXES_POW2 = 32


@dataclass(frozen=True, slots=True)
class Boundary:
    residual: torch.Tensor  # bf16 [T, 4, 4096]
    post: torch.Tensor  # fp32 [T, 4, 1]
    comb: torch.Tensor  # fp32 [T, 4, 4]
    layer_input: torch.Tensor  # bf16 [T, 4096]


def check_inputs(
    x: torch.Tensor, residual: torch.Tensor, post: torch.Tensor, comb: torch.Tensor, fn: torch.Tensor
) -> int:
    tokens = int(residual.shape[0])
    assert residual.shape == (tokens, layout.HC_MULT, layout.HIDDEN) and residual.dtype == torch.bfloat16, (
        f"residual: {residual.dtype} {tuple(residual.shape)}, expected bf16 [T, {layout.HC_MULT}, {layout.HIDDEN}]"
    )
    assert x.shape == (tokens, layout.HIDDEN) and x.dtype == torch.bfloat16, (
        f"x: {x.dtype} {tuple(x.shape)}, expected bf16 [{tokens}, {layout.HIDDEN}]"
    )
    assert post.numel() == tokens * layout.HC_MULT and post.dtype == torch.float32
    assert comb.numel() == tokens * layout.HC_MULT**2 and comb.dtype == torch.float32
    assert fn.shape == (layout.HC_MIXES, layout.HC_MULT * layout.HIDDEN) and fn.dtype == torch.float32, (
        f"fn: {fn.dtype} {tuple(fn.shape)}, expected fp32 [24, 16384]"
    )
    for name, value in (("x", x), ("residual", residual), ("post", post), ("comb", comb), ("fn", fn)):
        assert value.is_contiguous(), f"{name}: strides {value.stride()}, expected contiguous"
    return tokens


def allocate(x: torch.Tensor, residual: torch.Tensor, layer_input: torch.Tensor | None) -> Boundary:
    tokens, hc = residual.shape[:2]
    wide = {"dtype": torch.float32, "device": x.device}
    return Boundary(
        torch.empty_like(residual),
        torch.empty((tokens, hc, 1), **wide),
        torch.empty((tokens, hc, hc), **wide),
        torch.empty_like(x) if layer_input is None else layer_input,
    )


def mhc_post_pre(
    x: torch.Tensor,
    residual: torch.Tensor,
    post: torch.Tensor,
    comb: torch.Tensor,
    fn: torch.Tensor,
    scale: torch.Tensor,
    base: torch.Tensor,
    norm_weight: torch.Tensor | None,
    *,
    rms_eps: float,
    pre_eps: float,
    sinkhorn_eps: float,
    post_mult: float,
    iterations: int,
    norm_eps: float,
    tiling: Tiling = TILING,
    layer_input: torch.Tensor | None = None,
) -> Boundary:
    """layer_input may be given, because only it may come from the engine's symmetric-memory pool."""
    tokens = check_inputs(x, residual, post, comb, fn)
    out = allocate(x, residual, layer_input)
    if tokens == 0:
        return out
    mix = torch.empty((tiling.splits, tokens, MIXES_POW2), dtype=torch.float32, device=x.device)
    square = torch.empty((tiling.splits, tokens), dtype=torch.float32, device=x.device)
    mhc_mix_kernel[(tiling.splits, -(-tokens // tiling.block_t))](
        x, residual, post, comb, fn, out.residual, mix, square, tokens,
        HIDDEN=layout.HIDDEN, SLICE=tiling.slice_size, BT=tiling.block_t, BG=tiling.mix_warps, BK=tiling.block_k,
        num_warps=tiling.mix_warps, num_stages=1,
    )  # fmt: skip
    mhc_finish_kernel[(tokens, 2)](
        out.residual, mix, square, scale, base, x if norm_weight is None else norm_weight,
        out.post, out.comb, out.layer_input, tokens, rms_eps, pre_eps, sinkhorn_eps, post_mult, norm_eps,
        HIDDEN=layout.HIDDEN, SPLITS=tiling.splits, ITERATIONS=iterations, HAS_NORM=norm_weight is not None,
        num_warps=tiling.finish_warps, launch_pdl=True,
    )  # fmt: skip
    return out
