"""Step size and grid of the indexer: a pure function of shapes, tested as a table.

Measured on an NVIDIA H200 (docs/kernels/indexer_logits.md): two pages a step and four blocks an SM win from 64k context
on and lose nothing below it; more blocks leave a short last wave, more stages change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

PROGRAMS_PER_SM = 4
PAGES = 2


@dataclass(frozen=True, slots=True)
class Tiling:
    pages: int
    programs: int
    row_block: int
    num_warps: int = 4
    num_stages: int = 3


def choose_tiling(batch: int, table_pages: int, sms: int) -> Tiling:
    """Never more programs than units at the widest table; the work inside follows the real lengths."""
    units = batch * -(-table_pages // PAGES)
    row_block = max(16, min(1024, 1 << (batch - 1).bit_length()))
    return Tiling(PAGES, max(1, min(PROGRAMS_PER_SM * sms, units)), row_block)
