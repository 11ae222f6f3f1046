"""The checkpoint's number formats: FP8 in blocks with power-of-two scales, MXFP4, NVFP4, and back again.

fp8     e4m3 [rows, columns] with one UE8M0 scale a block of 128 x 128: [ceil(rows/128), ceil(columns/128)]
mxfp4   e2m1 [rows, columns/2] int8, the even element in the low nibble, one UE8M0 scale a row and 32 elements
nvfp4   e2m1 likewise, uint8, one e4m3 scale a row and 16 elements, and one float32 scale for the whole tensor
"""

from __future__ import annotations

import torch

BLOCK, GROUP = 128, 32
NVFP4_GROUP, NVFP4_TOP = 16, 256.0  # the largest block scale: a power of two that e4m3 has
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
    return _values(packed) * scale.float().repeat_interleave(GROUP, -1)


def nvfp4_of_mxfp4(packed: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same values, exactly, in NVFP4: (codes uint8 [..., columns/2], e4m3 scales [..., columns/16], float32 []).

    MXFP4's scales are powers of two, and so are these: the codes stay, a group becomes two, and what all groups of the
    tensor have in common is the second scale.

    Raises:
        ValueError: scales further apart than e4m3 reaches.
    """
    largest = scale.float().amax()
    blocks = (scale.float() / largest * NVFP4_TOP).repeat_interleave(GROUP // NVFP4_GROUP, -1)
    quantised = blocks.to(torch.float8_e4m3fn)
    if not torch.equal(quantised.float(), blocks):
        raise ValueError(f"scales from {scale.float().amin():g} to {largest:g}: e4m3 has no such ratio")
    return packed.view(torch.uint8), quantised, largest / NVFP4_TOP


def from_nvfp4(packed: torch.Tensor, scale: torch.Tensor, tensor_scale: torch.Tensor) -> torch.Tensor:
    """float32 [..., columns]."""
    return _values(packed) * scale.float().repeat_interleave(NVFP4_GROUP, -1) * tensor_scale


def _values(packed: torch.Tensor) -> torch.Tensor:
    """float32 [..., columns] of e2m1 codes, the even element in the low nibble."""
    table = torch.tensor((*FP4_VALUES, *(-value for value in FP4_VALUES)), device=packed.device)
    raw = packed.view(torch.uint8)
    return table[torch.stack((raw & 15, raw >> 4), dim=-1).flatten(-2).long()]
