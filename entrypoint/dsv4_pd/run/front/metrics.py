"""What the door measures, by route, key name and dialect: Prometheus text. The settings bound the label sets."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dsv4_pd.run.ops.exposition import Family, gauge, render

FIRST_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
GAP_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0)
WHOLE_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
WAIT_S = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
Labels = tuple[str, str, str]  # route, key, dialect


@dataclass(slots=True)
class Histogram:
    """Counts by bucket; `bounds` are upper ones."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """One observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


@dataclass(slots=True)
class Series:
    """What is measured for one route, key and dialect."""

    first: Histogram = field(default_factory=lambda: Histogram(FIRST_S))
    gap: Histogram = field(default_factory=lambda: Histogram(GAP_S))
    whole: Histogram = field(default_factory=lambda: Histogram(WHOLE_S))
    waited: Histogram = field(default_factory=lambda: Histogram(WAIT_S))
    statuses: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    running: int = 0


class Metrics:
    """Every series since the start."""

    def __init__(self) -> None:
        self.series: dict[Labels, Series] = {}

    def of(self, route: str, key: str, dialect: str) -> Series:
        """The series of these labels."""
        return self.series.setdefault((route, key, dialect), Series())

    def text(self, now: dict[str, float]) -> str:
        """The exposition. `now`: gauges by name."""
        return render(self.families(now))

    def families(self, now: dict[str, float]) -> list[Family]:
        """What `text` writes."""
        return [*self._families(), *_gauges(now)]

    def _families(self) -> Iterator[Family]:
        histograms = (
            ("time_to_first_token_seconds", "From a request's arrival to the first of its answer.", "first"),
            ("time_between_tokens_seconds", "Between two events of a stream.", "gap"),
            ("request_seconds", "From a request's arrival to the end of its answer.", "whole"),
            ("queue_seconds", "In the queue at the door.", "waited"),
        )
        for name, text, attribute in histograms:
            lines = [
                line
                for labels, one in self.series.items()
                if any(getattr(one, attribute).counts)
                for line in _histogram(f"dsv4_front_{name}", labels, getattr(one, attribute))
            ]
            yield Family(f"dsv4_front_{name}", "histogram", text, lines)
        yield self._counter("requests", "Requests answered.", "status", "statuses")
        yield self._counter("ends", "How answers ended.", "end", "ended")
        for what in ("prompt", "completion"):
            values = ((_named(labels), getattr(one, f"{what}_tokens")) for labels, one in self.series.items())
            yield gauge(f"dsv4_front_{what}_tokens_total", f"Tokens of {what}s.", values, "counter")
        running = ((_named(labels), one.running) for labels, one in self.series.items())
        yield gauge("dsv4_front_requests_running", "Requests being answered.", running)

    def _counter(self, name: str, text: str, label: str, attribute: str) -> Family:
        values = (
            ({**_named(labels), label: value}, count)
            for labels, one in self.series.items()
            for value, count in getattr(one, attribute).items()
        )
        return gauge(f"dsv4_front_{name}_total", text, values, "counter")


def _named(labels: Labels) -> dict[str, str]:
    return dict(zip(("route", "key", "dialect"), labels, strict=True))


def _histogram(name: str, labels: Labels, found: Histogram) -> Iterator[str]:
    inner = ",".join(f'{key}="{value}"' for key, value in _named(labels).items())
    total = 0
    for bound, count in zip((*map(repr, found.bounds), "+Inf"), found.counts, strict=True):
        total += count
        yield f'{name}_bucket{{{inner},le="{bound}"}} {total}'
    yield f"{name}_sum{{{inner}}} {found.sum:.9g}"
    yield f"{name}_count{{{inner}}} {total}"


TEXTS = {
    "dsv4_front_slots": "Answers that may be made at once.",
    "dsv4_front_slots_used": "Answers being made.",
    "dsv4_front_queue": "Requests that wait for a slot.",
    "dsv4_front_connections": "Open connections.",
    "dsv4_front_connections_refused_total": "Connections over the limit, told so.",
    "dsv4_front_keys": "Named keys in use.",
    "dsv4_front_keys_load_failed": "1 while the file of keys can't be used and older keys are.",
    "dsv4_front_certificate_load_failed": "1 while the certificate's files can't be used and an older one is.",
    "dsv4_front_request_log_lost_total": "Lines of the request log that could not be written.",
}


def _gauges(now: dict[str, float]) -> Iterator[Family]:
    for name, value in now.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        yield gauge(name, TEXTS[name], [({}, value)], kind)
