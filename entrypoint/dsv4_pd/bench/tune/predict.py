"""What a layout should give before it is measured: a queueing model with five numbers from two runs. Pure.

Prefill is a queue with one server for each prefill (M/G/1, Pollaczek-Khinchine); a decode step takes a base time and
some more for each request in it. A whole server does both: while it reads a prompt, its answers stand still. The load
either arrives at a rate or keeps so many requests in flight; the latter is solved for the rate at which so many are.

It knows nothing of prefix hits, chunks that share a step, routing that is not even, or memory. It says which layouts
are worth a run, never which one is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.workload import Workload
from dsv4_pd.settings.layout import Layout

SCALING = 0.8  # exponent of speed over GPUs of a server, where both runs have servers of one size: an assumption
WORTH = 0.6  # of the best prediction: a layout below is not run unless all are asked for


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run showed: alone, and with `busy` requests in each decode batch on average. Seconds."""

    tensor_parallel: int
    prompt_tokens: float  # of the requests that were sent alone
    ttft_alone: float
    step_alone: float
    step_busy: float
    busy: float  # requests in a decode batch


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one GPU's worth of server; a server of n GPUs is n**scaling times as fast."""

    per_prompt_token: float
    step: float  # of a decode step with one request, less what that one adds
    per_request: float  # that each request adds to a step
    scaling: float

    def on(self, gpus: int) -> tuple[float, float, float]:
        """(seconds a prompt token, base of a step, more for each request) of a server of so many GPUs."""
        speed = float(max(1, gpus)) ** self.scaling
        return self.per_prompt_token / speed, self.step / speed, self.per_request / speed


@dataclass(frozen=True, slots=True)
class Prediction:
    """Means, in seconds; `per_s`: requests a second."""

    per_s: float
    tokens_per_s: float
    ttft: float
    itl: float
    latency: float
    score: float  # of the objective


def calibrate(one: Seen, other: Seen) -> Costs:
    """Five numbers from two runs; the scaling is fitted where the servers had two sizes."""
    exponent = SCALING
    if one.tensor_parallel != other.tensor_parallel and one.step_alone > 0 < other.step_alone:
        size = math.log(other.tensor_parallel / one.tensor_parallel)
        reads = (one.ttft_alone / one.prompt_tokens) / (other.ttft_alone / other.prompt_tokens)
        steps = one.step_alone / other.step_alone
        exponent = min(1.0, max(0.0, math.log(math.sqrt(reads * steps)) / size))
    mine, theirs = _of(one, exponent), _of(other, exponent)
    per_token, step, more = ((a + b) / 2 for a, b in zip(mine, theirs, strict=True))
    return Costs(per_token, step, more, exponent)


def _of(seen: Seen, exponent: float) -> tuple[float, float, float]:
    """(prompt token, step, per request) of one GPU by one run."""
    speed = float(seen.tensor_parallel) ** exponent
    more = max(0.0, (seen.step_busy - seen.step_alone) / (seen.busy - 1)) if seen.busy > 1 else 0.0
    base = max(1e-6, seen.step_alone - more)
    return seen.ttft_alone / seen.prompt_tokens * speed, base * speed, more * speed


def predict(layout: Layout, work: Workload, costs: Costs, objective: Objective) -> Prediction:
    """The layout's steady state under the load."""
    model = _Model(layout, work, costs)
    asked = work.rate
    most = model.capacity * 0.999
    per_s = (
        min(asked, most) if asked is not None else _solve(lambda rate: model.in_flight(rate) - work.concurrency, most)
    )
    ttft, itl = model.ttft(per_s), model.step(per_s)
    latency = ttft + work.output_tokens * itl
    if asked is not None and asked > most:
        latency = ttft = max(latency, len(work.asks) / most / 2)  # the queue grows for as long as the window lasts
    tokens = per_s * work.output_tokens
    kept = 1.0 if objective.keeps(ttft, itl) else _share(objective, ttft, itl)
    return Prediction(per_s, tokens, ttft, itl, latency, latency if objective.kind == "latency" else tokens * kept)


def _share(objective: Objective, ttft: float, itl: float) -> float:
    """Of the requests that keep the bounds when the mean does not: exponential waits, a guess that orders layouts."""
    late = max(ttft / objective.ttft_s if objective.ttft_s else 0.0, itl / objective.itl_s if objective.itl_s else 0.0)
    return 1 - math.exp(-1 / late)


class _Model:
    """A layout under a load, as functions of the rate of requests."""

    def __init__(self, layout: Layout, work: Workload, costs: Costs) -> None:
        self.pair = layout.kind == "pd"
        self.readers, self.writers = layout.groups[0].count, layout.groups[-1].count
        per_token, self.base, self.more = costs.on(layout.groups[0].tensor_parallel or 1)
        reads = [per_token * ask.input for ask in work.asks]
        self.read = sum(reads) / len(reads)
        self.read_squared = sum(value * value for value in reads) / len(reads)
        self.output = work.output_tokens

    def busy(self, rate: float) -> float:
        """Share of the time that a server reads prompts."""
        return rate * self.read / self.readers

    def ttft(self, rate: float) -> float:
        """Reading, and the wait for it."""
        left = max(1e-9, 1 - self.busy(rate))
        return self.read + rate / self.readers * self.read_squared / (2 * left)

    def step(self, rate: float) -> float:
        """Between two tokens of an answer: B requests make a step of base + more * B, and B = rate * output * step."""
        free = (1.0 if self.pair else 1 - self.busy(rate)) - self.more * self.output * rate / self.writers
        return self.base / max(1e-9, free)

    def in_flight(self, rate: float) -> float:
        """Little's law over both."""
        return rate * (self.ttft(rate) + self.output * self.step(rate))

    @property
    def capacity(self) -> float:
        """Requests a second that it can serve at most."""
        reads, writes = self.read / self.readers, self.more * self.output / self.writers
        return 1 / (max(reads, writes) if self.pair else reads + writes)


def _solve(excess: Callable[[float], float], most: float) -> float:
    """Where a growing function of the rate is zero."""
    low, high = 0.0, most
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return (low + high) / 2


def worth(scores: Sequence[float], kind: str) -> list[bool]:
    """Which predictions are near enough to the best to be measured."""
    if kind == "latency":
        return [score <= min(scores) / WORTH for score in scores]
    return [score >= WORTH * max(scores) for score in scores]
