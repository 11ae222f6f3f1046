"""Where more load buys nothing: concurrency doubles until throughput stops growing or the first token is too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsv4_pd.bench.load import LoadStep, Request, Target, run
from dsv4_pd.bench.summary import summarise

GAIN = 0.10  # less than this from doubling the concurrency is a knee


def find(
    first: LoadStep,
    target: Target,
    limit: int,
    ttft_limit_s: float,
    tell: Callable[[dict[str, Any], list[Request]], None],
) -> tuple[list[dict[str, Any]], dict[str, list[Request]], dict[str, Any]]:
    """Points, their requests, and the verdict."""
    points: list[dict[str, Any]] = []
    requests: dict[str, list[Request]] = {}
    concurrency = first.concurrency
    while concurrency <= limit:
        load = LoadStep(
            f"c{concurrency}", concurrency, max(8, 3 * concurrency), first.input_tokens, first.output_tokens,
            dataset=first.dataset, seed=first.seed + concurrency,
        )  # fmt: skip
        requests |= run([load], target)
        points.append(summarise(load, requests[load.name]))
        tell(points[-1], requests[load.name])
        if reason := saturated(points, ttft_limit_s):
            return points, requests, {"knee": _knee(points), "reason": reason}
        concurrency *= 2
    return points, requests, {"knee": _knee(points), "reason": f"not saturated up to {limit}"}


def saturated(points: list[dict[str, Any]], ttft_limit_s: float) -> str | None:
    """Why the last point ends the search.

    >>> saturated([{"output_tokens_per_s": 100, "ttft": {"p99": 0.1}},
    ...            {"output_tokens_per_s": 104, "ttft": {"p99": 0.2}}], 9.0)
    'throughput grew by 4 % from doubling the concurrency'
    """
    last = points[-1]
    if failed := last.get("failed", 0):
        return (
            f"{failed} of {failed + last['completed']} requests were refused or failed at {last['concurrency']} at once"
        )
    if last["ttft"].get("p99", 0.0) > ttft_limit_s:
        return f"p99 of the time to the first token is {last['ttft']['p99']:.2f} s, above {ttft_limit_s:g} s"
    if len(points) < 2:
        return None
    gain = last["output_tokens_per_s"] / points[-2]["output_tokens_per_s"] - 1
    return f"throughput grew by {gain * 100:.0f} % from doubling the concurrency" if gain < GAIN else None


def _knee(points: list[dict[str, Any]]) -> int:
    """The smallest concurrency that gives nine tenths of the best throughput of those at which every request is served;
    0 when there is none.
    """
    served = [point for point in points if not point.get("failed")]
    best = max((point["output_tokens_per_s"] for point in served), default=0.0)
    return int(next((p["concurrency"] for p in served if p["output_tokens_per_s"] >= best * (1 - GAIN)), 0))
