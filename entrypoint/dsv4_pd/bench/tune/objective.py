"""What is wanted, what a run gave of it, and whether one is better than another with confidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from dsv4_pd.bench.load import Request
from dsv4_pd.bench.stats import Interval, percentile, ratio

Kind = Literal["throughput", "latency"]
LEAST_GAIN = 0.02  # less is not worth a change of the layout, however sure
_NOTHING = 1e-9  # tokens/s in place of none: a ratio needs two numbers
ENDLESS = 1e6  # seconds, in place of an answer that never came: JSON has no infinity


@dataclass(frozen=True, slots=True)
class Objective:
    """`throughput`: tokens a second of requests that keep both bounds (seconds). `latency`: p90 of the whole answer."""

    kind: Kind = "throughput"
    ttft_s: float | None = None
    itl_s: float | None = None

    def text(self) -> str:
        """In words, for reports and receipts.

        >>> Objective("throughput", ttft_s=2).text()
        'tokens/s of requests with a first token within 2 s'
        """
        if self.kind == "latency":
            return "p90 of the whole answer, in seconds"
        bounds = [
            *([f"a first token within {self.ttft_s:g} s"] if self.ttft_s else []),
            *([f"{self.itl_s:g} s between tokens on average"] if self.itl_s else []),
        ]
        return "tokens/s" + (f" of requests with {' and '.join(bounds)}" if bounds else "")

    def keeps(self, ttft_s: float, itl_s: float) -> bool:
        """Whether a request is within the bounds."""
        return (self.ttft_s is None or ttft_s <= self.ttft_s) and (self.itl_s is None or itl_s <= self.itl_s)

    def score(self, requests: Sequence[Request]) -> float:
        """One window's figure; a window in which nothing succeeded has throughput 0 and an endless wait."""
        good = [request for request in requests if request.ok]
        if not good:
            return 0.0 if self.kind == "throughput" else ENDLESS
        if self.kind == "latency":
            return percentile([request.latency for request in good], 0.9)
        seconds = max(r.start + r.latency for r in good) - min(r.start for r in good)
        kept = sum(r.output_tokens for r in good if self.keeps(r.ttft, r.itl_mean))
        return kept / seconds if seconds > 0 else 0.0

    def gain(self, before: Sequence[float], after: Sequence[float], confidence: float) -> Interval:
        """How many times better, over windows; above 1 is better for either kind."""
        one, other = ([max(value, _NOTHING) for value in values] for values in (before, after))
        return ratio(other, one, fmean, confidence=confidence) if self.kind == "latency" else ratio(
            one, other, fmean, confidence=confidence)  # fmt: skip


def better(gain: Interval) -> bool:
    """Shown, and worth it.

    >>> better(Interval(1.2, 1.05, 1.4)), better(Interval(1.2, 0.98, 1.4)), better(Interval(1.015, 1.01, 1.02))
    (True, False, False)
    """
    return gain.low > 1.0 and gain.value >= 1 + LEAST_GAIN


def confidence(challengers: int) -> float:
    """Of each comparison, so that all of them together are wrong once in twenty times (Bonferroni).

    >>> confidence(1), confidence(5)
    (0.95, 0.99)
    """
    return 1 - 0.05 / max(1, challengers)
