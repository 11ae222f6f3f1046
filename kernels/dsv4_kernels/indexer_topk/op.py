"""Indexer and top-k: assert the layout, allocate, launch."""

from __future__ import annotations

import torch

from dsv4_kernels import layout
from dsv4_kernels.indexer_logits.op import check_inputs, indexer_logits
from dsv4_kernels.indexer_logits.tiling import Tiling as LogitsTiling
from dsv4_kernels.indexer_topk.kernel import topk_kernel
from dsv4_kernels.indexer_topk.tiling import Tiling, choose_tiling
from dsv4_kernels.present import card_of

TOPK = layout.INDEX_TOPK


def check_output(name: str, out: torch.Tensor, batch: int) -> None:
    assert out.dtype == torch.int32 and out.shape == (batch, TOPK) and out.is_contiguous(), (
        f"{name}: {out.dtype} {tuple(out.shape)}, expected contiguous int32 [{batch}, {TOPK}]"
    )


def indexer_topk(
    q: torch.Tensor,
    kv: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    raw: torch.Tensor | None = None,
    tiling: Tiling | None = None,
    logits_tiling: LogitsTiling | None = None,
) -> torch.Tensor:
    """int32 [B, 512]: the tokens of each row's 512 best keys in the pool, in any order, -1 behind a shorter row.

    raw, where given, takes their positions in the row.
    """
    check_inputs(q, kv, weights, seq_lens, page_table)
    batch, pages = page_table.shape
    if out is None:
        out = torch.empty((batch, TOPK), dtype=torch.int32, device=q.device)
    check_output("out", out, batch)
    if raw is not None:
        check_output("raw", raw, batch)
    if batch == 0:
        return out
    tiling = tiling or choose_tiling(batch, pages, card_of(q.device).sms)
    assert pages * layout.INDEX_PAGE <= tiling.pieces * tiling.size, (
        f"a table of {pages} pages, expected at most {tiling.pieces} pieces of {tiling.size} keys"
    )
    slots = tiling.pieces * tiling.slot
    candidates = torch.empty((2, batch, slots), dtype=torch.int32, device=q.device)
    arrived = torch.empty((batch,), dtype=torch.int32, device=q.device)
    width = pages * layout.INDEX_PAGE
    scores = indexer_logits(
        q, kv, weights, seq_lens, page_table, width, skip_identity=True, tiling=logits_tiling, zero=arrived
    )
    topk_kernel[(batch, tiling.parts)](
        scores, seq_lens, page_table, out, out if raw is None else raw, candidates[0], candidates[1], arrived,
        tiling.parts, scores.stride(0), page_table.stride(0), slots,
        TOPK=TOPK, SLOT=tiling.slot, SMALL=tiling.small, SIZE=tiling.size, HAS_RAW=raw is not None,
        num_warps=tiling.num_warps, num_stages=1, launch_pdl=True,
    )  # fmt: skip
    return out
