"""Tile and split choice of sparse MLA: a pure function of shapes, tested as a table.

Measured on an NVIDIA H200 (docs/kernels/sparse_mla_decode.md): 32 keys and 4 warps win at 1 row of 16 heads and
from 16 rows on. 16 keys pay the same exchanges between warps for half the work. 64 keys need 8 warps and 84 KB, so
one block fills an SM: ahead by 11 % where the card is not full anyway (4 and 8 blocks), behind at 64 rows. 32 and
64 heads a block spill or leave one block on an SM.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_H = 16
WIDE_TILES = range(4, 9)
WAVE = 264  # blocks that run at once on the card that was measured: 132 SMs, two blocks of 50 KB and 128 threads each


@dataclass(frozen=True, slots=True)
class Tiling:
    block_h: int
    block_n: int
    num_warps: int
    splits: int

    @property
    def splits_pow2(self) -> int:
        return 1 << (self.splits - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def choose_tiling(batch: int, heads: int, main_width: int, extra_width: int) -> Tiling:
    """Splits fill one wave of blocks; a split never holds less than one tile."""
    blocks = batch * cdiv(heads, BLOCK_H)
    block_n, num_warps = (64, 8) if blocks in WIDE_TILES else (32, 4)
    tiles = cdiv(main_width, block_n) + cdiv(extra_width, block_n)
    return Tiling(BLOCK_H, block_n, num_warps, max(1, min(tiles, WAVE // blocks)))
