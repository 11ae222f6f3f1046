"""What one load came to: figures from its requests; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4_pd.bench.load import LoadStep, Request
from dsv4_pd.bench.stats import percentile

_SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def summarise(load: LoadStep, requests: Sequence[Request]) -> dict[str, Any]:
    """Throughput and latencies in seconds; failed requests are counted and play no part in the latencies."""
    good = [request for request in requests if request.ok]
    begun = min((request.start for request in good), default=0.0)
    seconds = max((request.start + request.latency for request in good), default=0.0) - begun
    gaps = [gap for request in good for gap in request.itls]
    return {
        **load.as_dict(),
        "seconds": round(seconds, 3),
        "completed": len(good),
        "failed": len(requests) - len(good),
        "short": sum(is_short(request, load) for request in good),
        "output_tokens_per_s": _rate(sum(request.output_tokens for request in good), seconds),
        "prompt_tokens_per_s": _rate(sum(request.prompt_tokens for request in good), seconds),
        "requests_per_s": _rate(len(good), seconds),
        "ttft": spread([request.ttft for request in good]),
        "itl": spread(gaps),
        "latency": spread([request.latency for request in good]),
    }


def is_short(request: Request, load: LoadStep) -> bool:
    """A stream that was cut ends early and, to the generator, well: count its pieces."""
    return len(request.itls) + 1 < load.output_tokens // 2


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50, p90, p99 and the mean, in seconds."""
    found = {name: round(percentile(values, share), 6) for name, share in _SHARES}
    return {**found, "mean": round(sum(values) / len(values), 6)} if values else {}


def _rate(count: float, seconds: float) -> float:
    return round(count / seconds, 3) if seconds > 0 else 0.0
