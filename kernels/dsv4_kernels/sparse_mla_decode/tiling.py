"""Tile and split choice of sparse MLA: a pure function of shapes, tested as a table.

Measured on an NVIDIA H200 (docs/kernels/sparse_mla_decode.md), by blocks of 16 heads: 32 keys and 4 warps win at 1
block and from 17 on. 64 keys need 8 warps and 84 KB, so one block fills an SM: ahead by 5 to 11 % where the card is
not full anyway (4 to 16 blocks) and by 6 % where one block an SM fills it (128), behind in between. Where the window
is all there is, splits of one tile cost more than they share: from 32 blocks on one wide block takes it all. 16 keys
pay the same exchanges between warps for half the work; 32 and 64 heads a block spill or leave one block on an SM.

Tables of more than 640 keys (c128) keep their splits: there rows may differ by hundreds of tiles.

On another card the numbers of blocks stay, except where they say how full the card is: these follow its SMs. Neither
is measured there.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_H = 16
BLOCKS_PER_SM = 2  # that run at once, of 50 KB and 128 threads each
NARROW, FEW_KEYS = 640, 128  # the window with the top-k, and the window alone
WIDE_TILES, WIDE_TILES_OF_LONG_TABLES = range(4, 17), range(4, 9)
HALF_WAVES = range(17, 33)
ALONE_WITH_FEW_KEYS = 32


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


def fills(blocks: int, sms: int) -> bool:
    """One block an SM leaves few SMs idle: 97 to 132 blocks on an H200.

    >>> fills(97, 132), fills(96, 132), fills(132, 132), fills(133, 132)
    (True, False, True, False)
    """
    return cdiv(97 * sms, 132) <= blocks <= sms


def choose_tiling(batch: int, heads: int, main_width: int, extra_width: int, sms: int) -> Tiling:
    """Splits fill one wave of blocks on a card of `sms` SMs; a split never holds less than one tile."""
    blocks = batch * cdiv(heads, BLOCK_H)
    narrow, few_keys = main_width + extra_width <= NARROW, main_width + extra_width <= FEW_KEYS
    alone = narrow and (fills(blocks, sms) or (few_keys and blocks >= ALONE_WITH_FEW_KEYS))
    wide_tiles = WIDE_TILES if narrow else WIDE_TILES_OF_LONG_TABLES
    wide = alone or (blocks in wide_tiles and not few_keys)
    block_n, num_warps = (64, 8) if wide else (32, 4)
    tiles = cdiv(main_width, block_n) + cdiv(extra_width, block_n)
    wave = sms if wide or (narrow and blocks in HALF_WAVES) else BLOCKS_PER_SM * sms
    return Tiling(BLOCK_H, block_n, num_warps, 1 if alone else max(1, min(tiles, wave // blocks)))
