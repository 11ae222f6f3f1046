"""A layout as a simulation, for tests of `tune` without an engine: prompts read one after another, answers in steps.

A stand-in for the real runner. It hides: starts that fail or take minutes, kernels that compile under load, chunks that
share a step with decoding, routers that spread unevenly, prefix hits, memory that runs out, the KV link's own time, and
a load generator that needs CPU as well. What the real appliance does is asked in tests/pair/test_tune.py. It does not
use the model of `tune.predict`, which is held against it.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dsv4_pd.bench.load import Request
from dsv4_pd.bench.tune.live import ALONE, window
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.state import Candidate, Measured
from dsv4_pd.bench.tune.workload import Ask, Workload
from dsv4_pd.errors import ApplianceError
from dsv4_pd.settings.layout import Layout, parse

PER_TOKEN, BASE, MORE = 1e-4, 0.010, 0.001  # seconds: a prompt token; a step; each request in it


@dataclass
class _Answer:
    ask: Ask
    sent: float
    first: float = 0.0
    times: list[float] = field(default_factory=list)

    def request(self, step: str) -> Request:
        gaps = tuple(b - a for a, b in zip(self.times, self.times[1:], strict=False))
        total = self.times[-1] - self.sent
        return Request(step, self.sent, self.times[0] - self.sent, gaps, total, self.ask.input, self.ask.output, True)


class _Server:
    """Reads prompts, decodes, or both: then reading goes first and its answers stand still."""

    def __init__(self, speed: float, pace: random.Random) -> None:
        self.speed, self.pace = speed, pace
        self.waiting: list[_Answer] = []
        self.running: list[_Answer] = []

    def has_work(self, now: float) -> bool:
        """Of what has arrived by now: other servers may be ahead."""
        return any(one.sent <= now for one in self.waiting) or any(one.times[-1] <= now for one in self.running)

    def act(self, now: float) -> tuple[float, _Answer | None, list[_Answer]]:
        """(moment when it is done, a prompt that was read, answers that got a token)."""
        noise = self.pace.uniform(0.97, 1.03)
        one = next((one for one in self.waiting if one.sent <= now), None)
        if one is not None:
            self.waiting.remove(one)
            return now + one.ask.input * PER_TOKEN / self.speed * noise, one, []
        some = [one for one in self.running if one.times[-1] <= now]
        return now + (BASE + MORE * len(some)) / self.speed * noise, None, some


def play(layout: Layout, work: Workload, seed: int, step: str = "w") -> list[Request]:
    """Every request of one window, closed loop: the next is sent when one has ended."""
    pace = random.Random(seed)
    speed = float(layout.groups[0].tensor_parallel or 1) ** 0.8
    readers = [_Server(speed, pace) for _ in range(layout.groups[0].count)]
    writers = readers if layout.kind != "pd" else [_Server(speed, pace) for _ in range(layout.groups[1].count)]
    servers = list(dict.fromkeys([*readers, *writers]))
    asks, turns = list(work.asks), {"send": 0, "hand": 0}
    done: list[_Answer] = []
    clock: list[tuple[float, int]] = [(0.0, n) for n in range(len(servers))]

    def send(now: float) -> None:
        if asks:
            readers[turns["send"] % len(readers)].waiting.append(_Answer(asks.pop(0), now))
            turns["send"] += 1

    for _ in range(work.concurrency):
        send(0.0)
    while len(done) < len(work.asks):
        now, number = heapq.heappop(clock)
        server = servers[number]
        if not server.has_work(now):
            heapq.heappush(clock, (now + 0.001, number))
            continue
        end, read, stepped = server.act(now)
        if read is not None:
            home = server if layout.kind != "pd" else writers[turns["hand"] % len(writers)]
            turns["hand"] += 1
            read.times.append(end)
            home.running.append(read)
        for one in stepped:
            one.times.append(end)
        for one in [*([read] if read else []), *stepped]:
            if len(one.times) >= one.ask.output:
                next(s for s in servers if one in s.running).running.remove(one)
                done.append(one)
                send(end)
        heapq.heappush(clock, (end, number))
    return [one.request(step) for one in done]


@dataclass
class Simulated:
    """The runner of `tune.experiment`. `broken` candidates don't start, `wrong` ones lie."""

    work: Workload
    aim: Objective
    windows: int = 5
    broken: frozenset[str] = frozenset()
    wrong: frozenset[str] = frozenset()
    pace: Mapping[str, float] = field(default_factory=dict)  # candidate -> how many times as fast
    stop_after: int | None = None
    ran: list[str] = field(default_factory=list)

    def run(self, candidate: Candidate, number: int) -> Measured:
        if self.stop_after is not None and len(self.ran) >= self.stop_after:
            raise KeyboardInterrupt
        self.ran.append(candidate.name)
        if candidate.name in self.broken:
            raise ApplianceError("dsv4-pd serve ended with 1 before it served:\nout of memory")
        layout, faster = parse(candidate.layout), self.pace.get(candidate.name, 1.0)
        alone = self.work.alone(ALONE)
        first = play(layout, alone, number)
        windows = []
        for at in range(self.windows):
            name = f"w{at}"
            found = [_scaled(r, faster) for r in play(layout, self.work, 100 * number + at, name)]
            load = self.work.load(name, Path("trace"), at)
            windows.append(window(load, found, self.aim))
        said: dict[str, str | None] = {"2+2": "5" if candidate.name in self.wrong else "4", "sky": "blue"}
        return Measured(
            windows=windows, answers=[said, said], alone_ttft=sum(r.ttft for r in first) / len(first),
            alone_itl=sum(r.itl_mean for r in first) / len(first),
            alone_tokens=sum(r.prompt_tokens for r in first) / len(first), ready_s=1.0, took_s=60.0,
        )  # fmt: skip


def _scaled(request: Request, faster: float) -> Request:
    return Request(request.step, request.start / faster, request.ttft / faster,
                   tuple(gap / faster for gap in request.itls), request.latency / faster, request.prompt_tokens,
                   request.output_tokens, request.ok)  # fmt: skip
