"""Slices of the hidden dimension: one choice for every token count, since the grid grows with the tokens by itself.

Measured on an NVIDIA H200 (docs/kernels/mhc_post_pre.md): slices of 64 columns and 4 warps are best or within 4 % from
9 to 64 tokens; wider slices leave the card short of blocks, block_k 32 spills.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsv4_kernels import layout


@dataclass(frozen=True, slots=True)
class Tiling:
    slice_size: int
    mix_warps: int
    block_k: int = 16
    block_t: int = 16
    finish_warps: int = 4

    @property
    def splits(self) -> int:
        return layout.HIDDEN // self.slice_size


TILING = Tiling(slice_size=64, mix_warps=4)
