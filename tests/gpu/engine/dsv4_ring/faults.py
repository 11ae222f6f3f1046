"""Faults planted in our sparse-MLA kernel, as a wrong kernel has them: what passes with one in it measures nothing.

scale: one of the seven UE8M0 scales of each window entry is read one power of two too large.
page:  compressed entries are read one page further than the index says.
Both change copies or arguments; the cache itself stays whole, so that no other kernel sees the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

NOPE_AND_ROPE_BYTES, SCALE_BYTES = 576, 8
GROUP = 3


def plant(fault: str) -> None:
    """Wrap the op that the adapter calls.

    Raises:
        KeyError: for an unknown fault.
    """
    from dsv4_kernels.sglang_plugin import adapters

    wrong = {"scale": scale_off, "page": page_off}[fault]
    own: Callable[..., torch.Tensor] = vars(adapters)["sparse_mla_decode"]

    def faulty(*args: Any, **named: Any) -> torch.Tensor:
        return own(*wrong(*args), **named)

    vars(adapters)["sparse_mla_decode"] = faulty


def scale_off(q: torch.Tensor, cache: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
    return q, with_scale_off(cache), *rest


def with_scale_off(cache: torch.Tensor) -> torch.Tensor:
    """A copy of a cache view [pages, slots, 1, 584] of one-byte elements with padded pages, one scale group doubled.

    The engine calls the bytes float8_e4m3fn; scales are exponents, so they are counted up as integers.
    """
    pages, slots, stride = cache.shape[0], cache.shape[1], cache.stride(0)
    raw = cache.view(torch.uint8)
    copy = torch.as_strided(raw, (pages, stride), (stride, 1)).clone()
    scales = copy[:, slots * NOPE_AND_ROPE_BYTES : slots * (NOPE_AND_ROPE_BYTES + SCALE_BYTES)]
    scales.view(pages, slots, SCALE_BYTES)[:, :, GROUP] += 1
    return torch.as_strided(copy, tuple(cache.shape), tuple(cache.stride())).view(cache.dtype)


def page_off(
    q: torch.Tensor,
    cache: torch.Tensor,
    indices: torch.Tensor,
    length: Any,
    sink: Any,
    scale: float,
    extra: torch.Tensor | None,
    extra_indices: torch.Tensor | None,
    extra_length: Any,
) -> tuple[Any, ...]:
    if extra is not None and extra_indices is not None:
        slots = extra.shape[1]
        moved = (extra_indices + slots) % (extra.shape[0] * slots)
        extra_indices = torch.where(extra_indices < 0, extra_indices, moved)
    return q, cache, indices, length, sink, scale, extra, extra_indices, extra_length
