"""The checkpoint's number formats: FP8 in blocks with power-of-two scales, MXFP4, and back again.

fp8     e4m3 [rows, columns] with one UE8M0 scale a block of 128 x 128: [ceil(rows/128), ceil(columns/128)]
mxfp4   e2m1 [rows, columns/2] int8, the even element in the low nibble, one UE8M0 scale a row and 32 elements
"""

from __future__ import annotations

import torch

BLOCK, GROUP = 128, 32
FP8_MAX, FP4_MAX = 448.0, 6.0
# e2m1: sign, two exponent bits, one of mantissa; index = the nibble
FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# halfway between neighbours
FP4_EDGES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def power_of_two(least: torch.Tensor) -> torch.Tensor:
    """The smallest power of two that is at least `least`, as float32."""
    return torch.exp2(torch.ceil(torch.log2(least.clamp(min=1e-12))))


def to_fp8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, columns] of any float type to (e4m3, UE8M0 scales)."""
    rows, columns = weight.shape
    down, across = -(-rows // BLOCK), -(-columns // BLOCK)
    padded = torch.zeros(down * BLOCK, across * BLOCK, device=weight.device)
    padded[:rows, :columns] = weight
    blocks = padded.view(down, BLOCK, across, BLOCK)
    scale = power_of_two(blocks.abs().amax(dim=(1, 3)) / FP8_MAX)
    quantised = (blocks / scale[:, None, :, None]).view_as(padded)[:rows, :columns].to(torch.float8_e4m3fn)
    return quantised.contiguous(), scale.to(torch.float8_e8m0fnu)


def from_fp8(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float32 [rows, columns]."""
    rows, columns = weight.shape
    spread = scale.float().repeat_interleave(BLOCK, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :columns]
    return weight.float() * spread


def to_mxfp4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[..., columns] of any float type to (packed int8 [..., columns/2], UE8M0 scales [..., columns/32])."""
    groups = weight.float().unflatten(-1, (-1, GROUP))
    scale = power_of_two(groups.abs().amax(-1) / FP4_MAX)
    scaled = groups / scale[..., None]
    code = torch.bucketize(scaled.abs(), torch.tensor(FP4_EDGES, device=weight.device))
    nibbles = (code + 8 * (scaled < 0)).to(torch.uint8).flatten(-2)
    packed = nibbles[..., 0::2] | (nibbles[..., 1::2] << 4)
    return packed.view(torch.int8), scale.to(torch.float8_e8m0fnu)


def from_mxfp4(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float32 [..., columns]."""
    table = torch.tensor((*FP4_VALUES, *(-value for value in FP4_VALUES)), device=packed.device)
    raw = packed.view(torch.uint8)
    nibbles = torch.stack((raw & 15, raw >> 4), dim=-1).flatten(-2)
    return table[nibbles.long()] * scale.float().repeat_interleave(GROUP, -1)
