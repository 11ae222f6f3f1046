"""Sparse MLA decode and prefill rows: assert the layout, allocate, launch."""

from __future__ import annotations

import torch

from dsv4_kernels import layout
from dsv4_kernels.cards import Card
from dsv4_kernels.layout import PageLayout
from dsv4_kernels.present import card_of
from dsv4_kernels.sparse_mla_decode.kernel import sparse_mla_combine_kernel, sparse_mla_split_kernel
from dsv4_kernels.sparse_mla_decode.tiling import Tiling, choose_tiling

LOG2E = 1.4426950408889634
MAX_POOL_BYTES = 16 << 30
COMBINE_DIMS = 256
COMBINE_SPLITS = 8


def check_cache(name: str, cache: torch.Tensor) -> None:
    assert cache.ndim == 4 and cache.shape[2:] == (1, layout.ENTRY_BYTES), (
        f"{name}: shape {tuple(cache.shape)}, expected [pages, page size, 1, {layout.ENTRY_BYTES}]"
    )
    least = PageLayout.of(cache.shape[1]).page_bytes
    assert cache.element_size() == 1 and cache.stride(0) >= least and cache.stride(0) % 16 == 0, (
        f"{name}: page stride {cache.stride(0)} of {cache.dtype}, expected >= {least} bytes, a multiple of 16"
    )
    size = cache.shape[0] * cache.stride(0)
    assert size <= MAX_POOL_BYTES, f"{name}: pool of {size} bytes, expected at most {MAX_POOL_BYTES} (32-bit offsets)"


def check_indices(name: str, indices: torch.Tensor, batch: int) -> torch.Tensor:
    assert indices.dtype == torch.int32 and indices.shape[0] == batch, (
        f"{name}: {indices.dtype} {tuple(indices.shape)}, expected int32 [{batch}, 1, width]"
    )
    return indices.reshape(batch, -1).contiguous()


def check_vector(name: str, values: torch.Tensor | None, size: int, dtype: torch.dtype) -> None:
    if values is not None:
        assert values.dtype == dtype and values.numel() == size and values.is_contiguous(), (
            f"{name}: {values.dtype} {tuple(values.shape)}, expected contiguous {dtype} [{size}]"
        )


def raw_bytes(cache: torch.Tensor) -> torch.Tensor:
    """The buffer behind the view as uint8: rows of the view overlap the scales, so only the pointer counts."""
    return cache.view(torch.uint8)


def sparse_mla_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    indices: torch.Tensor,
    topk_length: torch.Tensor | None,
    attn_sink: torch.Tensor | None,
    softmax_scale: float,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
    *,
    tiling: Tiling | None = None,
    card: Card | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """q bf16 [B, 1, H, 512] → bf16 [B, 1, H, 512]. H is a multiple of 16. Safe to capture in a CUDA graph.

    card: whose SMs the tiling fills; the one that q lies on, where it is not given.
    """
    batch, one, heads, dim = q.shape
    assert q.dtype == torch.bfloat16 and one == 1 and dim == layout.HEAD_DIM and q.stride(3) == 1, (
        f"q: {q.dtype} {tuple(q.shape)} strides {q.stride()}, expected bf16 [B, 1, H, 512], last stride 1"
    )
    check_cache("k_cache", k_cache)
    if out is None:
        out = torch.empty((batch, 1, heads, dim), dtype=q.dtype, device=q.device)
    if batch == 0:
        return out
    main = check_indices("indices", indices, batch)
    check_vector("topk_length", topk_length, batch, torch.int32)
    check_vector("extra_topk_length", extra_topk_length, batch, torch.int32)
    check_vector("attn_sink", attn_sink, heads, torch.float32)
    has_extra = extra_k_cache is not None and extra_indices is not None
    if has_extra:
        check_cache("extra_k_cache", extra_k_cache)
        extra, extra_cache = check_indices("extra_indices", extra_indices, batch), raw_bytes(extra_k_cache)
    else:
        extra, extra_cache = main, raw_bytes(k_cache)
    widths = main.shape[1], extra.shape[1] if has_extra else 0
    tiling = tiling or choose_tiling(batch, heads, *widths, (card or card_of(q.device)).sms)
    assert heads % tiling.block_h == 0, f"q: {heads} heads, expected a multiple of {tiling.block_h}"
    launch(
        q, raw_bytes(k_cache), main, topk_length, extra_cache, extra, extra_topk_length, attn_sink, out,
        softmax_scale, (k_cache.shape[1], extra_cache.shape[1]), widths, tiling,
    )  # fmt: skip
    return out


def launch(
    q: torch.Tensor, main_cache: torch.Tensor, main: torch.Tensor, main_length: torch.Tensor | None,
    extra_cache: torch.Tensor, extra: torch.Tensor, extra_length: torch.Tensor | None,
    sink: torch.Tensor | None, out: torch.Tensor, softmax_scale: float,
    pages: tuple[int, int], widths: tuple[int, int], tiling: Tiling,
) -> None:  # fmt: skip
    batch, _, heads, dim = q.shape
    splits = tiling.splits
    shared = {
        "H": heads, "BN": tiling.block_n, "HAS_SINK": sink is not None, "HAS_MAIN_LENGTH": main_length is not None,
        "HAS_EXTRA": widths[1] > 0, "HAS_EXTRA_LENGTH": widths[1] > 0 and extra_length is not None,
    }  # fmt: skip
    # an absent argument still needs a pointer; its HAS_ flag keeps the kernel from reading it
    main_length = main if main_length is None else main_length
    extra_length = main if extra_length is None else extra_length
    sink = out if sink is None else sink
    if splits == 1:
        part, lse = out, out
    else:
        part = torch.empty((batch, splits, heads, dim), dtype=torch.float32, device=q.device)
        lse = torch.empty((batch, splits, heads), dtype=torch.float32, device=q.device)
    sparse_mla_split_kernel[(batch * heads // tiling.block_h, splits)](
        q, main_cache, main, main_length, extra_cache, extra, extra_length, sink, out, part, lse,
        softmax_scale * LOG2E, main_cache.stride(0) // 16, extra_cache.stride(0) // 16, q.stride(0), q.stride(2),
        *widths, splits, BH=tiling.block_h, SINGLE=splits == 1, MAIN_PAGE=pages[0], EXTRA_PAGE=pages[1], **shared,
        num_warps=tiling.num_warps, num_stages=1,
    )  # fmt: skip
    if splits > 1:
        sparse_mla_combine_kernel[(batch * heads, dim // COMBINE_DIMS)](
            main_length, extra_length, sink, part, lse, out, *widths, splits,
            SPLITS_POW2=tiling.splits_pow2, BD=COMBINE_DIMS, BS=min(COMBINE_SPLITS, tiling.splits_pow2),
            num_warps=4, launch_pdl=True, **shared,
        )  # fmt: skip
