"""Sparse MLA attention in float64, straight from the definition."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dsv4_kernels import layout
from dsv4_kernels.layout import PageLayout


@dataclass(frozen=True, slots=True)
class Scope:
    """One paged cache and the tokens that each row reads from it.

    cache: uint8 [pages, page_size, 1, 584], stride(0) = page bytes · indices: int32 [B, 1, W] ·
    length: int32 [B] or None; entries at or past it are invalid whatever they hold.
    """

    cache: torch.Tensor
    indices: torch.Tensor
    length: torch.Tensor | None

    @property
    def page_size(self) -> int:
        return int(self.cache.shape[1])


def raw_pages(cache: torch.Tensor) -> torch.Tensor:
    """The cache as [pages, page bytes], padding and scales included."""
    raw = cache.view(torch.uint8)
    return raw.as_strided((raw.shape[0], raw.stride(0)), (raw.stride(0), 1))


def dequantise(cache: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """tokens int64 [N] (all valid) → float64 [N, 512]."""
    page_size = cache.shape[1]
    pages, page, slot = raw_pages(cache), tokens // page_size, tokens % page_size
    data = slot[:, None] * layout.TOKEN_BYTES + torch.arange(layout.TOKEN_BYTES, device=tokens.device)
    entry = pages[page[:, None], data]
    first_scale = PageLayout.of(page_size).scale_offset + slot * layout.TOKEN_SCALE_BYTES
    groups = torch.arange(layout.SCALE_GROUPS, device=tokens.device)
    exponent = pages[page[:, None], first_scale[:, None] + groups].double() - layout.UE8M0_BIAS
    nope = entry[:, : layout.NOPE_DIM].contiguous().view(torch.float8_e4m3fn).double()
    nope = nope.view(-1, layout.SCALE_GROUPS, layout.SCALE_GROUP) * torch.exp2(exponent)[:, :, None]
    rope = entry[:, layout.NOPE_DIM :].contiguous().view(torch.bfloat16).double()
    return torch.cat([nope.reshape(-1, layout.NOPE_DIM), rope], dim=1)


def valid_mask(scope: Scope) -> torch.Tensor:
    """bool [B, W]."""
    indices = scope.indices.flatten(1)
    mask = indices >= 0
    if scope.length is not None:
        mask &= torch.arange(indices.shape[1], device=indices.device)[None] < scope.length[:, None]
    return mask


def attend_row(q: torch.Tensor, keys: torch.Tensor, sink: torch.Tensor | None, scale: float) -> torch.Tensor:
    """q [H, 512], keys [N, 512] → [H, 512]; a row without keys is 0."""
    if keys.shape[0] == 0:
        return torch.zeros_like(q)
    scores = q @ keys.T * scale
    top = scores.amax(1, keepdim=True)
    if sink is not None:
        top = torch.maximum(top, sink[:, None])
    weight = torch.exp(scores - top)
    total = weight.sum(1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink[:, None] - top)
    return weight @ keys / total


def sparse_mla_reference(
    q: torch.Tensor,
    main: Scope,
    extra: Scope | None,
    sink: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    """q bf16 [B, 1, H, 512] → float64 [B, 1, H, 512]."""
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    scopes = [scope for scope in (main, extra) if scope is not None]
    masks = [valid_mask(scope) for scope in scopes]
    wide_sink = None if sink is None else sink.double()
    for row in range(q.shape[0]):
        keys = [
            dequantise(scope.cache, scope.indices.flatten(1)[row][mask[row]].long())
            for scope, mask in zip(scopes, masks, strict=True)
        ]
        out[row, 0] = attend_row(q[row, 0].double(), torch.cat(keys), wide_sink, scale)
    return out
