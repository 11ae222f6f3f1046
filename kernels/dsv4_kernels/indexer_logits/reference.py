"""Indexer logits in float64, straight from the definition."""

from __future__ import annotations

import torch

from dsv4_kernels import layout


def gather_keys(kv: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """kv uint8 [P, 64, 1, 132], table int32 [maxp] → scaled keys float64 [length, 128]."""
    pages = kv.reshape(kv.shape[0], layout.INDEX_PAGE_BYTES)
    page = pages[table[: -(-length // layout.INDEX_PAGE)].long()]
    data = page[:, : layout.INDEX_PAGE_DATA].contiguous().view(torch.float8_e4m3fn).double()
    scale = page[:, layout.INDEX_PAGE_DATA :].contiguous().view(torch.float32).double()
    keys = data.view(-1, layout.INDEX_DIM) * scale.view(-1, 1)
    return keys[:length]


def indexer_logits_reference(
    q: torch.Tensor, kv: torch.Tensor, weights: torch.Tensor, seq_lens: torch.Tensor, page_table: torch.Tensor
) -> list[torch.Tensor]:
    """q e4m3 [B, 1, 64, 128], weights fp32 [B, 64] → one float64 [seq_len] per row.

    score = sum over heads of weight * relu(q . k); the key's scale is positive, so it may go inside the relu.
    """
    out = []
    for row, length in enumerate(seq_lens.tolist()):
        keys = gather_keys(kv, page_table[row], length)
        scores = torch.relu(keys @ q[row, 0].double().T)
        out.append(scores @ weights[row].double())
    return out
