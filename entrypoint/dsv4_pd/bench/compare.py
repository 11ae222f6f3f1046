"""Two runs, point by point, with intervals; unlike hosts are refused, because their difference says nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dsv4_pd.bench.results import Run
from dsv4_pd.bench.stats import Interval, percentile, ratio
from dsv4_pd.errors import Problem, SettingsError

_HOST = ("cpu", "cpus", "memory_gb", "numa_nodes", "kernel", "driver", "gpus", "topology")
_SIZE = ("concurrency", "requests", "input_tokens", "output_tokens", "rate", "dataset")
_ENOUGH = 5  # requests; fewer give no interval worth the name
# (name, how to read a request, figure over requests, lower is better)
_FIGURES = (
    ("ttft p50", "ttft", 0.5),
    ("ttft p99", "ttft", 0.99),
    ("itl mean", "itl_mean", None),
    ("latency p50", "latency", 0.5),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one point: after/before."""

    point: str
    figure: str
    ratio: Interval

    @property
    def verdict(self) -> str:
        """In words; all figures here are times, so less is better."""
        if not self.ratio.excludes(1.0):
            return "no difference shown"
        return "faster" if self.ratio.value < 1 else "slower"


def compare(before: Run, after: Run) -> list[Row]:
    """Every figure of every point that both runs have.

    Raises:
        SettingsError: unlike hosts, or no point in common.
    """
    if problems := unlike(before, after):
        raise SettingsError(problems)
    theirs = {_size(point): point for point in after.points}
    shared = [(point, theirs[_size(point)]) for point in before.points if _size(point) in theirs]
    if not shared:
        raise SettingsError(
            [Problem("compare", "no point in common", "two runs with the same loads", "run the same sweep")]
        )
    return [row for mine, other in shared for row in _rows(mine["name"], _good(before, mine), _good(after, other))]


def unlike(before: Run, after: Run) -> list[Problem]:
    """What differs between the hosts."""
    one, other = (run.head["appliance"].get("machine") or {} for run in (before, after))
    if not one or not other:
        return [Problem("compare", "a run that does not name its host", "both hosts named", "measure again")]
    return [
        Problem(f"host: {key}", f"{_text(one.get(key))} and {_text(other.get(key))}", "the same in both runs",
                "measure both on one host")
        for key in _HOST
        if one.get(key) != other.get(key)
    ]  # fmt: skip


def _rows(name: str, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Row]:
    rows = []
    for figure, key, share in _FIGURES:
        a, b = ([float(r[key]) for r in requests if r.get(key)] for requests in (before, after))
        if min(len(a), len(b)) >= _ENOUGH:
            rows.append(Row(name, figure, ratio(a, b, partial(percentile, share=share)) if share else ratio(a, b)))
    return rows


def _good(run: Run, point: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [request for request in run.requests.get(str(point["name"]), []) if request["ok"]]


def _size(point: Mapping[str, Any]) -> str:
    return json.dumps([point.get(key) for key in _SIZE])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
