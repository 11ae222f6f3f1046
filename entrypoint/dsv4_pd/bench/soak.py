"""The same load for hours, in windows: what creeps is a leak, and no single window shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dsv4_pd.bench.load import LoadStep, Request, Target, run
from dsv4_pd.bench.stats import drift
from dsv4_pd.bench.summary import summarise

WINDOWS = 4  # fewer give no trend
WORSE = 0.05  # a shown trend smaller than this harms nobody
# figure -> (how to read it, +1 when growing is worse)
FIGURES: dict[str, tuple[Callable[[dict[str, Any]], float], int]] = {
    "output tokens/s": (lambda point: float(point["output_tokens_per_s"]), -1),
    "itl p50": (lambda point: float(point["itl"]["p50"]), 1),
    "ttft p50": (lambda point: float(point["ttft"]["p50"]), 1),
}


def soak(
    shape: LoadStep, target: Target, seconds: float, tell: Callable[[dict[str, Any], list[Request]], None]
) -> tuple[list[dict[str, Any]], dict[str, list[Request]]]:
    """Windows of the same work until the time is up, at least as many as a trend needs."""
    points: list[dict[str, Any]] = []
    requests: dict[str, list[Request]] = {}
    begun = time.monotonic()
    while len(points) < WINDOWS or time.monotonic() - begun < seconds:
        number = len(points)
        load = LoadStep(f"w{number}", shape.concurrency, shape.requests, shape.input_tokens, shape.output_tokens,
                    dataset=shape.dataset, seed=shape.seed + number)  # fmt: skip
        requests |= run([load], target)
        points.append({**summarise(load, requests[load.name]), "at_s": round(time.monotonic() - begun, 1)})
        tell(points[-1], requests[load.name])
    return points, requests


def trends(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each figure the change over the run with its interval, and whether it is a drift for the worse."""
    found = []
    for name, (read, sign) in FIGURES.items():
        trend = drift([read(point) for point in points])
        bad = trend.shown and sign * trend.share.value > WORSE
        found.append({"figure": name, "change": round(trend.share.value, 4), "low": round(trend.share.low, 4),
                      "high": round(trend.share.high, 4), "worse": bad})  # fmt: skip
    return found
