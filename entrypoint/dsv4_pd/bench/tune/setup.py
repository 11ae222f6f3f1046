"""From the machine and what was asked for to an experiment that can run, or go on: reads the host, starts nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.bench.tune import candidates, state, switches
from dsv4_pd.bench.tune.experiment import Rules, begin, plan_of
from dsv4_pd.bench.tune.state import Candidate, State
from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.host.machine import Machine
from dsv4_pd.plan.around import tuned
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey
from dsv4_pd.settings.load import load as load_settings

FILE = "experiment.json"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where an experiment happens. `present`: what would be started now."""

    environ: Mapping[str, str]
    machine: Machine
    present: Situation

    @property
    def folder(self) -> Path:
        """Of receipts, the experiment and the state of the appliances that it starts."""
        return self.present.planned().paths.state / tuned.FOLDER

    @property
    def file(self) -> Path:
        """The experiment."""
        return self.folder / FILE

    @property
    def key(self) -> dict[str, Any]:
        """What a choice made here holds for."""
        return tuned.key_of(load_settings(self.environ), self.present.facts, self.environ)

    @property
    def about(self) -> Mapping[str, Any]:
        """The machine, for reports."""
        machine: Mapping[str, Any] = self.present.planned().about["machine"]
        return machine


def look(environ: Mapping[str, str], machine: Machine) -> Bench:
    """The machine as it is.

    Raises:
        ApplianceError: nothing could be started here at all.
    """
    present = survey(environ, machine)
    present.planned()
    return Bench(environ, machine, present)


def resumed(bench: Bench, rules: Rules, windows: int, stages: Sequence[str]) -> State:
    """The experiment that is there, with what is new in it, or a new one.

    Raises:
        SettingsError: one with another load or another aim is not done.
    """
    key, plan = bench.key, plan_of(rules, windows)
    found = state.load(bench.file)
    if found is not None and (found.key, _plain(found.plan)) != (key, _plain(plan)):
        if not found.done:
            expected = "the same load, objective and machine as when it began"
            remedy = "go on with the same options, or end it with dsv4-pd tune --reset"
            raise SettingsError([Problem(str(bench.file), "another experiment that is not done", expected, remedy)])
        bench.file.replace(bench.file.with_name(time.strftime("experiment-%Y%m%d-%H%M%S.json", time.gmtime())))
        found = None
    wanted = list(_wanted(bench, stages, found))
    if found is None:
        return begin(key, plan, wanted)
    known = {one.name for one in found.candidates}
    fresh = [one for one in wanted if one.name not in known]
    found.candidates += fresh
    found.done = found.done and not any(one.verdict == "open" for one in fresh)
    return found


def _plain(plan: Mapping[str, Any]) -> Any:
    """As JSON gives it back: tuples are lists."""
    if isinstance(plan, Mapping):
        return {name: _plain(value) for name, value in plan.items()}
    return [_plain(value) for value in plan] if isinstance(plan, list | tuple) else plan


def _wanted(bench: Bench, stages: Sequence[str], found: State | None) -> Iterator[Candidate]:
    """What stands first, then everything that is to be tried."""
    layout = str(bench.present.planned().placement.layout)
    if found is None:
        yield Candidate(name=layout, stage="layout", layout=layout)
    if "layout" in stages:
        yield from _layouts(bench, found.present.layout if found else layout)
    if "switches" in stages:
        yield from _switches(bench, found.named(found.best) if found else None, layout)


def _layouts(bench: Bench, present: str) -> Iterator[Candidate]:
    for one in candidates.judged(bench.environ, bench.machine, bench.present):
        if (name := str(one.layout)) != present:
            verdict: state.Verdict = "unfit" if one.refusal else "open"
            yield Candidate(name=name, stage="layout", layout=name, verdict=verdict, why=one.refusal or "")


def _switches(bench: Bench, best: Candidate | None, layout: str) -> Iterator[Candidate]:
    plan = bench.present.planned()
    for switch in switches.read():
        one = switches.candidate(switch, plan.settings, best.layout if best else layout)
        if best is not None:
            one.settings = {**best.settings, **one.settings}
            one.variables = {**best.variables, **one.variables}
            one.flags = [*best.flags, *one.flags]
        if why := switches.obstacle(switch, plan.placement, plan.settings, bench.environ, bench.present.around.config):
            one.verdict, one.why = "not applicable", why
        yield one
