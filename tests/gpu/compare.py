"""Distributions against distributions, token by token."""

from __future__ import annotations

from typing import Any

import numpy

from gpu.verdict import Difference

Array = Any  # numpy.ndarray; numpy is in the engine's environment


def difference(one: Array, other: Array, forced: Array) -> Difference:
    """one, other: log-probabilities [tokens, vocabulary]; forced: token ids [tokens]. KL of `other` from `one`."""
    if one.shape != other.shape or len(forced) != len(one):
        raise ValueError(f"{one.shape} and {other.shape} with {len(forced)} tokens, expected equal shapes")
    rows = numpy.arange(len(forced))
    apart = numpy.abs(one[rows, forced] - other[rows, forced])
    kl = (numpy.exp(one) * (one - other)).sum(-1)
    same = one.argmax(-1) == other.argmax(-1)
    return Difference(
        len(rows), float(apart.mean()), float(apart.max()), float(kl.mean()), float(kl.max()), float(same.mean())
    )
