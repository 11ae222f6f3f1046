"""The card that a tensor lies on, asked once for each device of a process.

Not in register(): it also runs in the engine's HTTP process, which must not open a card, and in a scheduler before that
has chosen its own. The first call asks; that is a warm-up forward, before any CUDA graph is captured, and every later
one gets the same answer.
"""

from __future__ import annotations

import functools

import torch

from dsv4_kernels import cards
from dsv4_kernels.cards import Card


@functools.cache
def card_of(device: torch.device) -> Card:
    """Without a GPU (Triton's interpreter, tensors without memory) the product's card."""
    if device.type != "cuda":
        return cards.TARGET
    found = torch.cuda.get_device_properties(device)
    return cards.of_device(found.name, 10 * found.major + found.minor, found.multi_processor_count)
