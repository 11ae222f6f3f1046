"""Percentiles, and how sure a difference is; pure, seeded, standard library."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean


def percentile(values: Sequence[float], share: float) -> float:
    """Linear between the neighbours; `share` from 0 to 1.

    >>> percentile([1, 2, 3, 4], 0.5)
    2.5
    """
    if not values:
        return math.nan
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and the bounds that hold it with the confidence asked for."""

    value: float
    low: float
    high: float

    def excludes(self, value: float) -> bool:
        """Whether a value lies outside."""
        return value < self.low or value > self.high


def ratio(
    before: Sequence[float],
    after: Sequence[float],
    figure: Callable[[Sequence[float]], float] = fmean,
    *,
    confidence: float = 0.95,
    rounds: int = 1000,
) -> Interval:
    """after/before of a figure, by bootstrap over the requests: no assumption about how latencies are spread."""
    rng = random.Random(7)  # noqa: S311
    draws = sorted(
        figure(rng.choices(after, k=len(after))) / figure(rng.choices(before, k=len(before))) for _ in range(rounds)
    )
    edge = (1 - confidence) / 2
    return Interval(figure(after) / figure(before), percentile(draws, edge), percentile(draws, 1 - edge))


@dataclass(frozen=True, slots=True)
class Drift:
    """The trend of a figure over a run: change from first to last window as a share of the mean."""

    share: Interval

    @property
    def shown(self) -> bool:
        """Whether the trend can be told from noise."""
        return self.share.excludes(0.0)


def drift(values: Sequence[float], *, rounds: int = 1000) -> Drift:
    """Least-squares trend over equal windows, its interval by bootstrap of the residuals.

    >>> drift([1.0, 1.1, 1.2, 1.3]).shown
    True
    """
    moments = range(len(values))
    slope, base = _line(moments, values)
    mean, span = fmean(values), len(values) - 1
    fitted = [base + slope * moment for moment in moments]
    residuals = [value - fit for value, fit in zip(values, fitted, strict=True)]
    rng = random.Random(7)  # noqa: S311

    def redrawn() -> float:
        noise = rng.choices(residuals, k=len(values))
        return _line(moments, [fit + off for fit, off in zip(fitted, noise, strict=True)])[0]

    draws = sorted(redrawn() for _ in range(rounds))
    scale = span / mean if mean else 0.0
    return Drift(Interval(slope * scale, percentile(draws, 0.025) * scale, percentile(draws, 0.975) * scale))


def _line(xs: Sequence[int], ys: Sequence[float]) -> tuple[float, float]:
    mean_x, mean_y = fmean(xs), fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0
    return slope, mean_y - slope * mean_x
