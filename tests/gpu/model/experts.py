"""Routed experts: random from a seed, MXFP4 from the start, never trained: served as they were in training."""

from __future__ import annotations

import torch

from gpu.model.formats import from_mxfp4
from gpu.model.shape import Shape

SEED = 20_261_130
# e2m1 codes drawn evenly have a root mean square of 2.9: these scales give about 1 / sqrt(columns)
EXPONENT = {"w1": -8, "w2": -6, "w3": -8}


def sizes(shape: Shape) -> dict[str, tuple[int, int]]:
    """Rows and columns of an expert's matrices."""
    wide, narrow = (shape.expert_width, shape.hidden), (shape.hidden, shape.expert_width)
    return {"w1": wide, "w2": narrow, "w3": wide}


def packed(shape: Shape, layer: int, name: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes int8 [experts, rows, columns/2] and scales UE8M0 [experts, rows, columns/32]; the same on every card."""
    rows, columns = sizes(shape)[name]
    own = torch.Generator(device=device).manual_seed(SEED + 10 * layer + int(name[1]))
    codes = torch.randint(0, 256, (shape.experts, rows, columns // 2), generator=own, device=device, dtype=torch.uint8)
    # One scale in four is half of the others, so that a scale of a wrong group is noticed.
    steps = torch.randint(0, 4, (shape.experts, rows, columns // 32), generator=own, device=device)
    exponent = (127 + EXPONENT[name] - (steps == 0).long()).to(torch.uint8)
    return codes.view(torch.int8), exponent.view(torch.float8_e8m0fnu)


def unpacked(shape: Shape, layer: int, device: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers' gate_up_proj [experts, 2 x width, hidden] and down_proj [experts, hidden, width]."""

    def whole(name: str) -> torch.Tensor:
        codes, scales = packed(shape, layer, name, device)
        return torch.stack([from_mxfp4(c, s).to(dtype) for c, s in zip(codes, scales, strict=True)])

    return torch.cat((whole("w1"), whole("w3")), dim=1), whole("w2")
