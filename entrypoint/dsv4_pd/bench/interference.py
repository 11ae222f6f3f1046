"""What a long prompt does to the streams that are running: the reason why people want prefill and decode apart."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dsv4_pd.bench.load import LoadStep, Request, Target, generator
from dsv4_pd.bench.summary import spread
from dsv4_pd.errors import ApplianceError

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Steady streams, and long prompts one after another among them."""

    streams: int
    stream_input: int
    stream_output: int
    prompts: int
    prompt_tokens: int
    quiet_s: float  # streams alone, before the first long prompt
    seed: int

    @property
    def steady(self) -> LoadStep:
        """As many long answers as run at once."""
        return LoadStep("streams", self.streams, self.streams, self.stream_input, self.stream_output, seed=self.seed)

    @property
    def long(self) -> tuple[LoadStep, ...]:
        """One load a prompt: fresh text each time, so that no cached prefix makes it short."""
        return tuple(
            LoadStep(f"prompt{number}", 1, 1, self.prompt_tokens, 1, seed=self.seed + number + 1)
            for number in range(self.prompts)
        )


def measure(plan: Disturbance, target: Target, tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Run both loads; the intruders wait until the streams have run alone for a while."""
    with tempfile.TemporaryDirectory(prefix="dsv4-bench-") as name:
        start, go = Path(name) / "start", Path(name) / "go"
        with (
            generator([plan.steady], target, Path(name), after=start) as steady,
            generator(plan.long, target, Path(name), after=go) as intruder,
        ):
            tell("loading two generators")
            steady.reach("loaded")
            intruder.reach("loaded")
            start.touch()
            steady.reach("begun")
            tell(f"{plan.streams} streams alone")
            time.sleep(plan.quiet_s)
            go.touch()
            tell("long prompts arrive")
            prompts = intruder.wait(
                lambda request: tell(f"{request.prompt_tokens} tokens read in {request.ttft:.2f} s")
            )
            tell("streams run to their end")
            streams = steady.wait()
    return {"plan": asdict(plan), **judge(streams, prompts, plan.quiet_s)}


def judge(streams: Sequence[Request], prompts: Sequence[Request], tail_s: float = 5.0) -> dict[str, Any]:
    """Gaps between tokens while a long prompt was being read, against those in quiet.

    Only the time in which every stream runs counts, up to `tail_s` after the last prompt: what comes later says more
    about the host's other work than about the prompts. Moments are given from the beginning of that time on.
    """
    good = [request for request in streams if request.ok]
    begin = max(request.start + request.ttft for request in good)
    end = min(request.start + request.latency for request in good)
    reads = [(request.start, request.start + request.ttft) for request in prompts if request.ok]
    windows = [span for span in reads if begin <= span[0] and span[1] <= end]
    if not windows:
        raise ApplianceError("the streams ended before a long prompt was read: raise --stream-output")
    end = min(end, windows[-1][1] + tail_s)
    gaps = [gap for request in good for gap in pairwise(request.token_moments) if begin <= gap[0] and gap[1] <= end]
    busy = [gap for gap in gaps if _touches(gap, windows)]
    quiet = [gap for gap in gaps if not _touches(gap, windows)]
    return {
        "quiet": _waits(quiet),
        "busy": _waits(busy),
        "rate": _rates(gaps, windows, end - begin),
        "prompts": {
            "read": len(windows),
            "outside": len(reads) - len(windows),
            "ttft": spread([b - a for a, b in windows]),
        },
        "windows": [[round(a - begin, 4), round(b - begin, 4)] for a, b in windows],
        "gaps": [[round(b - begin, 4), round(b - a, 5)] for a, b in sorted(gaps, key=lambda gap: gap[1])],
        "failed": sum(not request.ok for request in (*streams, *prompts)),
    }


def _waits(gaps: Sequence[Span]) -> dict[str, Any]:
    return {"tokens": len(gaps), "itl": spread([b - a for a, b in gaps])}


def _touches(gap: Span, windows: Sequence[Span]) -> bool:
    return any(gap[0] < b and gap[1] > a for a, b in windows)


def _rates(gaps: Sequence[Span], windows: Sequence[Span], seconds: float) -> dict[str, float]:
    """Tokens per second of all streams together, inside the windows and outside, and the share that is left inside."""
    inside_s = sum(b - a for a, b in windows)
    inside = sum(any(a <= end <= b for a, b in windows) for _, end in gaps)
    during, alone = inside / inside_s, (len(gaps) - inside) / (seconds - inside_s)
    return {"during_per_s": round(during, 2), "alone_per_s": round(alone, 2), "left": round(during / alone, 4)}
