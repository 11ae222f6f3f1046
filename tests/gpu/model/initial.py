"""Weights before any training: from a seed, with a start that makes a short training enough to learn copying."""

from __future__ import annotations

from typing import Any

import torch

from gpu.model import experts
from gpu.model.shape import Shape

SEED = 20_261_130


def initialise(model: Any, shape: Shape) -> None:
    """In place. Streams start almost apart, mixing weights almost constant: the usual 0.02 there is mostly noise."""
    generator = torch.Generator(device="cpu").manual_seed(SEED)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if ("experts." in name and "shared" not in name) or "inv_freq" in name:
            continue
        value.data.copy_(first_value(name, value, shape, generator))
    for layer in range(shape.layers):
        block = model.model.layers[layer].mlp.experts
        up, down = experts.unpacked(shape, layer, str(value.device), block.gate_up_proj.dtype)
        block.gate_up_proj.data.copy_(up)
        block.down_proj.data.copy_(down)


def first_value(name: str, value: torch.Tensor, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    if name.endswith("tid2eid"):
        token, place = torch.arange(shape.vocabulary)[:, None], torch.arange(shape.active)[None, :]
        return (token * 7 + place * 41 + len(name)) % shape.experts
    if name.endswith(("norm.weight", "_scale", ".scale")):
        return torch.ones(value.shape)
    if name.endswith("_hc.base"):
        streams = shape.streams
        base = torch.zeros(2 * streams + streams * streams)
        base[2 * streams :] = 2.0 * torch.eye(streams).flatten()
        base[:streams] = 0.5 * torch.arange(streams)
        return base
    if name.endswith("position_bias"):
        return by_slot(*value.shape) if value.shape[0] == 4 else torch.randn(value.shape, generator=generator) * 0.1
    if name.endswith(("sinks", "base", "bias")):
        return torch.randn(value.shape, generator=generator) * 0.1
    spread = 0.002 if name.endswith("fn") else value.shape[-1] ** -0.5
    return torch.randn(value.shape, generator=generator) * (0.5 if "embed_tokens" in name else spread)


def by_slot(ratio: int, width: int) -> torch.Tensor:
    """[4, 2 x dim]: each eighth of an entry's dimensions starts on one of the eight tokens that the entry is made of.

    The first half of the width belongs to the four tokens before, the second to the entry's own four. From an even
    start an entry is an average of its tokens, and most of a short training passes before that is unlearned.
    """
    dim = width // 2
    share = torch.arange(dim) * 2 * ratio // dim  # [dim]: the slot that a dimension starts on
    bias = torch.zeros(ratio, width)
    for slot in range(2 * ratio):
        half = slice(0, dim) if slot < ratio else slice(dim, width)
        bias[slot % ratio, half] = torch.where(share == slot, 5.0, 0.0)
    return bias
