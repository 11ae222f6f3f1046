"""The real runner: the real appliance as a child, asked and measured through its router."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from dsv4_pd.bench.load import LoadStep, Request, Target, run
from dsv4_pd.bench.summary import is_short
from dsv4_pd.bench.tune.experiment import Tell
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.state import Candidate, Measured, Window
from dsv4_pd.bench.tune.workload import Workload
from dsv4_pd.client.api import Api
from dsv4_pd.client.child import Running, started
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.plan.around.tuned import EXTRA
from dsv4_pd.verify import reference

PASSES = 2  # over the questions: one that is answered in two ways is no evidence
ALONE = 4  # requests one after another


@dataclass(frozen=True, slots=True)
class Appliances:
    """`settings`: by field, the same for every candidate; above all the cache, or each start would compile again."""

    work: Workload
    aim: Objective
    windows: int
    engine_python: Path
    settings: Mapping[str, str]
    key: str | None
    tell: Tell
    extra_args: Mapping[str, str] = field(default_factory=dict)  # the operator's, by field
    seed: int = 1

    def run(self, candidate: Candidate, number: int) -> Measured:
        """Start, ask, measure, end."""
        begun = time.monotonic()
        wanted = {
            **self.settings,
            **candidate.settings,
            **self._extra(candidate),
            "layout": candidate.layout,
        }
        with started(wanted, candidate.variables) as running:
            self.tell(f"{candidate.name}: serves after {running.ready_s:.0f} s")
            target, api = self._target(running)
            answers = [dict(reference.ask(api, self.seed)) for _ in range(PASSES)]
            alone, windows = self._measure(target, number)
        good = [request for request in alone if request.ok]
        if not good:
            raise ApplianceError(f"{candidate.name}: no request succeeded when nothing else ran")
        return Measured(
            windows=windows,
            answers=answers,
            alone_ttft=fmean(request.ttft for request in good),
            alone_itl=fmean(request.itl_mean for request in good),
            alone_tokens=fmean(request.prompt_tokens for request in good),
            ready_s=running.ready_s,
            took_s=round(time.monotonic() - begun, 1),
        )

    def _extra(self, candidate: Candidate) -> dict[str, str]:
        """The operator's own extra arguments, and the candidate's flags behind them."""
        flags = shlex.join(candidate.flags)
        return {name: f"{self.extra_args.get(name, '')} {flags}".strip() for name in EXTRA} if flags else {}

    def _target(self, running: Running) -> tuple[Target, Api]:
        status = Ops(running.ops_url).status()
        weights = (status.get("about") or {}).get("weights") or {}
        model = str(status.get("model"))
        target = Target(running.api_url, model, str(weights.get("name") or model), self.engine_python, self.key)
        return target, Api(running.api_url, model, self.key)

    def _measure(self, target: Target, number: int) -> tuple[list[Request], list[Window]]:
        """Requests alone, a window that warms up and is dropped, and the windows that count; fresh prompts in each,
        the same for every candidate.
        """
        with tempfile.TemporaryDirectory(prefix="dsv4-tune-") as name:
            trace, first = Path(name) / "load.jsonl", Path(name) / "alone.jsonl"
            trace.write_text(self.work.text(), encoding="utf-8")
            alone = self.work.alone(ALONE)
            first.write_text(alone.text(), encoding="utf-8")
            seed = self.seed + 1000 * number
            loads = [
                self.work.load("warm", trace, seed),
                alone.load("alone", first, seed + 1),
                *(self.work.load(f"w{at}", trace, seed + 2 + at) for at in range(self.windows)),
            ]
            found = run(loads, target)
        counted = [window(load, found[load.name], self.aim) for load in loads[2:]]
        for at, one in enumerate(counted, 1):
            self.tell(f"  window {at} of {self.windows}: {one.score:.4g}")
        return found["alone"], counted


def window(load: LoadStep, requests: list[Request], aim: Objective) -> Window:
    """One window's figures."""
    good = [request for request in requests if request.ok]
    if not good:
        return Window(
            score=aim.score([]), tokens_per_s=0, per_s=0, ttft=0, itl=0, latency=0, failed=max(1, len(requests))
        )
    seconds = max(r.start + r.latency for r in good) - min(r.start for r in good)
    return Window(
        score=aim.score(requests),
        tokens_per_s=sum(r.output_tokens for r in good) / seconds,
        per_s=len(good) / seconds,
        ttft=fmean(r.ttft for r in good),
        itl=fmean(r.itl_mean for r in good),
        latency=fmean(r.latency for r in good),
        failed=load.requests - len(good) + sum(is_short(r, load) for r in good),
    )
