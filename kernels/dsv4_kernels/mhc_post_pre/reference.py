"""The boundary between two hyper-connection sublayers in float64, straight from the definition."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dsv4_kernels import layout


@dataclass(frozen=True, slots=True)
class Constants:
    rms_eps: float = 1e-6
    pre_eps: float = 1e-6
    sinkhorn_eps: float = 1e-6
    post_mult: float = 2.0
    iterations: int = layout.SINKHORN_ITERS
    norm_eps: float = 1e-6


def sinkhorn(logits: torch.Tensor, eps: float, iterations: int) -> torch.Tensor:
    """[T, 4, 4] → doubly normalised, rows first; the first row step is a softmax."""
    mixed = torch.softmax(logits, dim=2) + eps
    mixed = mixed / (mixed.sum(1, keepdim=True) + eps)
    for _ in range(iterations - 1):
        mixed = mixed / (mixed.sum(2, keepdim=True) + eps)
        mixed = mixed / (mixed.sum(1, keepdim=True) + eps)
    return mixed


def post_residual(x: torch.Tensor, residual: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """residual_new[i] = post[i] * x + sum_j comb[j][i] * residual[j], rounded to bf16 as the engine stores it."""
    wide = post.double().view(-1, layout.HC_MULT, 1) * x.double()[:, None]
    wide = wide + torch.einsum("tji,tjh->tih", comb.double(), residual.double())
    return wide.to(torch.bfloat16)


def mhc_post_pre_reference(
    x: torch.Tensor,
    residual: torch.Tensor,
    post: torch.Tensor,
    comb: torch.Tensor,
    fn: torch.Tensor,
    scale: torch.Tensor,
    base: torch.Tensor,
    norm_weight: torch.Tensor | None,
    constants: Constants,
    residual_new: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(residual_new bf16, post [T, 4], comb [T, 4, 4], layer_input), the last three float64.

    residual_new may be given, so that one bf16 rounding that fell the other way is not counted twice.
    """
    if residual_new is None:
        residual_new = post_residual(x, residual, post, comb)
    flat = residual_new.double().flatten(1)
    rms = torch.rsqrt(flat.square().mean(1, keepdim=True) + constants.rms_eps)
    mixes = flat @ fn.double().T * rms
    a, b, c = scale.double()
    hc = layout.HC_MULT
    pre = torch.sigmoid(mixes[:, :hc] * a + base[:hc].double()) + constants.pre_eps
    post_new = torch.sigmoid(mixes[:, hc : 2 * hc] * b + base[hc : 2 * hc].double()) * constants.post_mult
    logits = (mixes[:, 2 * hc :] * c + base[2 * hc :].double()).view(-1, hc, hc)
    comb_new = sinkhorn(logits, constants.sinkhorn_eps, constants.iterations)
    layer_input = torch.einsum("tj,tjh->th", pre, residual_new.double())
    if norm_weight is not None:
        norm = torch.rsqrt(layer_input.square().mean(1, keepdim=True) + constants.norm_eps)
        layer_input = layer_input * norm * norm_weight.double()
    return residual_new, post_new, comb_new, layer_input
