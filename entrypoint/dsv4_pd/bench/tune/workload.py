"""What the appliance is measured under: a word for a kind of load, or a trace of the user's own. Pure but for `read`.

A trace is JSON lines, one a request: `{"at_s": 0.0, "input": 812, "output": 240}`; moments in seconds from any zero,
lengths in tokens. Without `at_s` the requests are sent as others end, `concurrency` at once.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from dsv4_pd.bench.load import LoadStep
from dsv4_pd.errors import Problem, SettingsError

_EXPECTED = 'JSON lines such as {"at_s": 0.5, "input": 812, "output": 240}'


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: when it arrives (seconds from the beginning), tokens of its prompt and of its answer."""

    at_s: float
    input: int
    output: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of one window. `open`: sent when they arrive, whatever runs; else `concurrency` of them at once."""

    name: str
    asks: tuple[Ask, ...]
    concurrency: int
    open: bool = False

    @property
    def input_tokens(self) -> float:
        """Mean prompt."""
        return fmean(ask.input for ask in self.asks)

    @property
    def output_tokens(self) -> float:
        """Mean answer."""
        return fmean(ask.output for ask in self.asks)

    @property
    def rate(self) -> float | None:
        """Requests a second of an open load; None where the load waits for answers."""
        span = max(ask.at_s for ask in self.asks) if self.open else 0.0
        return (len(self.asks) - 1) / span if span > 0 else None

    def load(self, name: str, trace: Path, seed: int) -> LoadStep:
        """For the load generator, once `trace` is written."""
        many = len(self.asks) if self.open else self.concurrency
        short = (min(ask.input for ask in self.asks), min(ask.output for ask in self.asks))
        return LoadStep(name, many, len(self.asks), *short, dataset=f"trace:{trace}", seed=seed)

    def text(self) -> str:
        """The trace as the load driver reads it."""
        lines = (
            {"at_s": ask.at_s if self.open else 0.0, "input": ask.input, "output": ask.output} for ask in self.asks
        )
        return "".join(json.dumps(line) + "\n" for line in lines)

    def alone(self, count: int) -> Workload:
        """The first few requests, one after another: what one costs when nothing else runs."""
        return Workload("alone", self.asks[:count], 1)

    def within(self, context: int) -> Workload:
        """The same with prompts cut so that each fits into a context length, answers first.

        Random prompts come back a fifth longer from a small vocabulary (docs/bench.md): three quarters are used.
        """
        room = context * 3 // 4
        kept = []
        for ask in self.asks:
            output = min(ask.output, room // 2)
            kept.append(replace(ask, output=output, input=max(1, min(ask.input, room - output))))
        return replace(self, asks=tuple(kept))


# word -> (requests at once, ((share of requests, prompt, answer), ...)); what the words of DSV4_PRESET mean for a load
WORDS: dict[str, tuple[int, tuple[tuple[float, int, int], ...]]] = {
    "chat": (32, ((0.7, 512, 256), (0.3, 2048, 384))),
    "agent": (16, ((0.8, 12288, 192), (0.2, 24576, 512))),
    "long-context": (8, ((0.5, 65536, 256), (0.5, 512, 1024))),
    "throughput": (128, ((1.0, 1024, 512),)),
}


def of_word(word: str, requests: int | None = None, concurrency: int | None = None) -> Workload:
    """The load that a preset's word stands for: the same mix each time, in a shuffled order that is always the same.

    >>> of_word("chat", 10).input_tokens
    972.8
    """
    at_once, mix = WORDS[word]
    many = concurrency or at_once
    count = requests or max(8, 2 * many)
    asks = [Ask(0.0, given, wanted) for share, given, wanted in mix for _ in range(round(share * count))]
    random.Random(7).shuffle(asks)  # noqa: S311
    return Workload(word, tuple(asks[:count]), many)


def read(path: Path, concurrency: int | None = None) -> Workload:
    """The user's trace.

    Raises:
        SettingsError: naming the line that is none.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise SettingsError([Problem(str(path), str(error), _EXPECTED, "give another file")]) from error
    found = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if len(found) < 2:
        raise SettingsError([Problem(str(path), f"{len(found)} requests", "at least 2", "record some more")])
    timed = [at for at, _, _ in found if at is not None]
    if timed and len(timed) != len(found):
        raise SettingsError([Problem(str(path), "at_s on some lines", "on each or on none", "fix the trace")])
    first = min(timed, default=0.0)
    asks = sorted((Ask((at or 0.0) - first if timed else 0.0, *sizes) for at, *sizes in found), key=lambda a: a.at_s)
    spread = asks[-1].at_s > 0 and concurrency is None
    return Workload(path.stem, tuple(asks), concurrency or min(16, len(asks)), open=spread)


def _row(path: Path, number: int, line: str) -> tuple[float | None, int, int]:
    try:
        data: Any = json.loads(line)
        at, sizes = data.get("at_s"), (data["input"], data["output"])
    except (ValueError, KeyError, AttributeError) as error:
        raise _wrong(path, number, line) from error
    whole = all(type(size) is int and size > 0 for size in sizes)
    if not whole or not (at is None or (isinstance(at, int | float) and at >= 0)):
        raise _wrong(path, number, line)
    return at, *sizes


def _wrong(path: Path, number: int, line: str) -> SettingsError:
    return SettingsError([Problem(f"{path}, line {number}", repr(line[:80]), _EXPECTED, "fix the trace")])
