"""Parts and sizes of the top-k: a pure function of shapes, tested as a table."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4_kernels import layout

BLOCKS_PER_SM = 4
SPARE_SLOT = layout.INDEX_TOPK + 128


@dataclass(frozen=True, slots=True)
class Tiling:
    """size: scores a piece · slot: candidates that a piece keeps."""

    pieces: int
    parts: int
    small: int = 2048
    size: int = 8192
    slot: int = layout.INDEX_TOPK
    num_warps: int = 16


def choose_tiling(batch: int, table_pages: int, sms: int) -> Tiling:
    """A part a piece, up to four blocks an SM. Few pieces keep more than they must, which ends their search sooner;
    many keep no more than one tile can take.
    """
    pieces = max(1, -(-table_pages * layout.INDEX_PAGE // Tiling(1, 1).size))
    slot = SPARE_SLOT if pieces * SPARE_SLOT <= Tiling(1, 1).size else layout.INDEX_TOPK
    return Tiling(pieces, max(1, min(pieces, BLOCKS_PER_SM * sms // batch)), slot=slot)
