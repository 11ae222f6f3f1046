"""Top-k of the indexer's scores in float64, and what makes a set of keys a right answer."""

from __future__ import annotations

import torch

from dsv4_kernels import layout
from dsv4_kernels.indexer_logits.reference import indexer_logits_reference


def set_error(scores: torch.Tensor, chosen: torch.Tensor, topk: int = layout.INDEX_TOPK) -> float:
    """How far the worst wrong choice of one row is from the edge, in units of the largest score; 0 for a right set.

    scores float64 [length], chosen int [topk] of positions, -1 behind the length. Ties at the edge may fall either way.
    A set of the wrong size, with repeats or with positions outside is infinitely wrong.

    >>> scores = torch.tensor([1.0, 4.0, 2.0, 3.0], dtype=torch.float64)
    >>> set_error(scores, torch.tensor([3, 1]), 2), set_error(scores, torch.tensor([2, 1]), 2)
    (0.0, 0.25)
    """
    wanted = min(topk, scores.numel())
    taken = chosen[chosen >= 0].long()
    if taken.numel() != wanted or taken.unique().numel() != wanted or (taken >= scores.numel()).any():
        return float("inf")
    if wanted == scores.numel():
        return 0.0
    edge = torch.topk(scores, wanted).values[-1]
    left = torch.ones_like(scores, dtype=torch.bool)
    left[taken] = False
    worst = torch.maximum(edge - scores[taken].min(), scores[left].max() - edge).clamp_min(0)
    return float(worst / scores.abs().max().clamp_min(1e-30))


def indexer_topk_errors(
    q: torch.Tensor,
    kv: torch.Tensor,
    weights: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    chosen: torch.Tensor,
) -> list[float]:
    """chosen int32 [B, 512]: positions in each row. One error a row."""
    rows = indexer_logits_reference(q, kv, weights, seq_lens, page_table)
    return [set_error(scores, chosen[row]) for row, scores in enumerate(rows)]
