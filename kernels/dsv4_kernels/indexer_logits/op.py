"""Indexer logits: assert the layout, allocate, launch."""

from __future__ import annotations

import torch

from dsv4_kernels import layout
from dsv4_kernels.indexer_logits.kernel import indexer_logits_kernel
from dsv4_kernels.indexer_logits.tiling import Tiling, choose_tiling
from dsv4_kernels.present import card_of

FP8 = torch.float8_e4m3fn


def check_inputs(
    q: torch.Tensor, kv: torch.Tensor, weights: torch.Tensor, seq_lens: torch.Tensor, page_table: torch.Tensor
) -> None:
    batch = q.shape[0]
    assert q.dtype == FP8 and q.shape[1:] == (1, layout.INDEX_HEADS, layout.INDEX_DIM) and q.is_contiguous(), (
        f"q: {q.dtype} {tuple(q.shape)}, expected contiguous {FP8} [B, 1, 64, 128]"
    )
    assert kv.element_size() == 1 and kv.shape[1:] == (layout.INDEX_PAGE, 1, layout.INDEX_DIM + 4), (
        f"kv: {kv.dtype} {tuple(kv.shape)}, expected bytes [pages, 64, 1, 132]"
    )
    assert kv.is_contiguous(), (
        f"kv: strides {kv.stride()}, expected contiguous pages of {layout.INDEX_PAGE_BYTES} bytes"
    )
    assert weights.dtype == torch.float32 and weights.shape == (batch, layout.INDEX_HEADS) and weights.is_contiguous()
    assert seq_lens.dtype == torch.int32 and seq_lens.numel() == batch, f"seq_lens: {seq_lens.dtype} {seq_lens.shape}"
    assert page_table.dtype == torch.int32 and page_table.shape[0] == batch and page_table.stride(1) == 1


def indexer_logits(
    q: torch.Tensor,
    kv: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    max_seq_len: int,
    *,
    skip_identity: bool = False,
    tiling: Tiling | None = None,
    out: torch.Tensor | None = None,
    zero: torch.Tensor | None = None,
) -> torch.Tensor:
    """fp32 [B, max_seq_len]; positions at or past a row's length are left as they were.

    skip_identity leaves rows of at most 512 keys untouched, because top-k takes all of them unseen. zero: int32, set to
    zero on the way for a kernel that is launched next with programmatic dependent launch.
    """
    check_inputs(q, kv, weights, seq_lens, page_table)
    batch, pages = page_table.shape
    if out is None:
        out = torch.empty((batch, max_seq_len), dtype=torch.float32, device=q.device)
    if batch == 0:
        return out
    tiling = tiling or choose_tiling(batch, pages, card_of(q.device).sms)
    indexer_logits_kernel[(tiling.programs,)](
        q, kv.view(FP8), kv.view(torch.uint8).reshape(-1).view(torch.float32), weights, seq_lens, page_table, out,
        seq_lens if zero is None else zero, 0 if zero is None else zero.numel(),
        batch, page_table.stride(0), out.stride(0),
        SKIP=layout.INDEX_TOPK if skip_identity else 0, PAGES=tiling.pages, BR=tiling.row_block,
        STAGES=tiling.num_stages,
        ONE_BLOCK=batch <= tiling.row_block, HAS_ZERO=zero is not None, num_warps=tiling.num_warps,
    )  # fmt: skip
    return out
