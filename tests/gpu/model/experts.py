"""Routed experts: random from a seed, MXFP4 from the start, never trained: served as they were in training.

The wide model's are the narrow one's, repeated as model/widen.py says: codes reordered and negated, exponents lower.
"""

from __future__ import annotations

import torch

from gpu.model.formats import from_mxfp4
from gpu.model.shape import Shape
from gpu.model.widen import Copies, hidden_copies

SEED = 20_261_130
# e2m1 codes drawn evenly have a root mean square of 2.9: about 1 / sqrt(columns) at the trained widths of 256 and 512;
# what is written is half of that, because nothing that is random helps to recall.
EXPONENT = {"w1": -6, "w2": -7, "w3": -6}
NEGATED = 8  # the sign's bit of a code


def sizes(shape: Shape) -> dict[str, tuple[int, int]]:
    """Rows and columns of an expert's matrices."""
    wide, narrow = (shape.expert_width, shape.hidden), (shape.hidden, shape.expert_width)
    return {"w1": wide, "w2": narrow, "w3": wide}


def packed(shape: Shape, layer: int, name: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes int8 [experts, rows, columns/2] and scales UE8M0 [experts, rows, columns/32]; the same on every card."""
    codes, exponent = drawn(shape.narrow(), layer, name, device)
    if shape.tiles > 1:
        codes, exponent = repeated(codes, exponent, name, hidden_copies(shape))
    halves = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return halves.view(torch.int8), exponent.view(torch.float8_e8m0fnu)


def drawn(shape: Shape, layer: int, name: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes uint8 [experts, rows, columns] of 0 to 15 and biased exponents uint8 [experts, rows, columns/32]."""
    rows, columns = sizes(shape)[name]
    own = torch.Generator(device=device).manual_seed(SEED + 10 * layer + int(name[1]))
    codes = torch.randint(0, 16, (shape.experts, rows, columns), generator=own, device=device, dtype=torch.uint8)
    # One scale in four is half of the others, so that a scale of a wrong group is noticed.
    steps = torch.randint(0, 4, (shape.experts, rows, columns // 32), generator=own, device=device)
    return codes, (127 + EXPONENT[name] - (steps == 0).long()).to(torch.uint8)


def repeated(
    codes: torch.Tensor, exponent: torch.Tensor, name: str, copies: Copies
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for every copy of the residual stream: w2 writes all of them, w1 and w3 read their mean."""
    source, negated = copies.source.to(codes.device), (copies.sign < 0).to(codes.device).to(torch.uint8) * NEGATED
    if name == "w2":
        return codes[:, source] ^ negated[None, :, None], exponent[:, source]
    groups = source[::32] // 32  # an order keeps the channels of a group together
    lower = exponent[..., groups] - int(copies.count).bit_length() + 1
    return codes[..., source] ^ negated, lower


def unpacked(shape: Shape, layer: int, device: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers' gate_up_proj [experts, 2 x width, hidden] and down_proj [experts, hidden, width]."""

    def whole(name: str) -> torch.Tensor:
        codes, scales = packed(shape, layer, name, device)
        return torch.stack([from_mxfp4(c, s).to(dtype) for c, s in zip(codes, scales, strict=True)])

    return torch.cat((whole("w1"), whole("w3")), dim=1), whole("w2")
