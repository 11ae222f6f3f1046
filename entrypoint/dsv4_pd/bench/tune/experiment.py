"""The experiment: what stands is challenged by one candidate after another, and gives way only to a better one.

`next_run` is pure: from the state to the run that is wanted next. A challenger that looks better runs once more, and so
does what stands: one start may be lucky, and the best of several always looks better than it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from dsv4_pd.bench.stats import Interval
from dsv4_pd.bench.tune import gate, objective
from dsv4_pd.bench.tune.forecast import foresee
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.state import STAGES, Candidate, Measured, State
from dsv4_pd.bench.tune.workload import Workload
from dsv4_pd.errors import ApplianceError

Save = Callable[[State], None]
Tell = Callable[[str], None]


class Runner(Protocol):
    """Starts a candidate, asks it, measures it, ends it."""

    def run(self, candidate: Candidate, number: int) -> Measured:
        """Run `number` (from 1) of a candidate.

        Raises:
            ApplianceError: it did not start, ended, or failed a whole window.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What the experiment goes by."""

    work: Workload
    aim: Objective
    everything: bool = False  # run what the model finds not worth it, too


def go(state: State, runner: Runner, rules: Rules, save: Save, tell: Tell = print) -> State:
    """Run until nothing is open; saved after every run and every verdict, so that it may be ended anywhere.

    Raises:
        ApplianceError: what stands now does not run: there is nothing to compare with.
    """
    while (wanted := next_run(state)) is not None:
        number = len(wanted.runs) + 1
        tell(f"{wanted.name}: run {number}{eta(state)}")
        try:
            wanted.runs.append(runner.run(wanted, number))
            _judge_answers(state, wanted)
        except ApplianceError as error:
            if wanted.name == state.best:
                raise
            wanted.verdict, wanted.why = "failed", str(error).splitlines()[0]
        if not rules.everything:
            foresee(state, rules.work, rules.aim)
        save(state)
        if wanted.why:
            tell(f"{wanted.name}: {wanted.verdict}: {wanted.why}")
        _decide(state, rules, tell)
        save(state)
    state.done = True
    save(state)
    return state


def next_run(state: State) -> Candidate | None:
    """What runs next; None when all is decided."""
    best = state.named(state.best)
    if not best.runs:
        return best
    challenger = open_ones(state)[0] if open_ones(state) else None
    if challenger is None:
        return None
    if not challenger.runs:
        return challenger
    # It looked better, else it would be decided: both once more.
    return best if len(best.runs) < 2 else challenger


def open_ones(state: State) -> list[Candidate]:
    """Challengers in their order: by stage, then the one that has begun, then by what the model expects."""
    found = [one for one in state.candidates if one.verdict == "open" and one.name != state.best]
    return sorted(found, key=lambda one: (STAGES.index(one.stage), not one.runs, _hope(one)))


def _hope(candidate: Candidate) -> float:
    if candidate.predicted is None:
        return 0.0
    return -candidate.predicted["merit"]


def _judge_answers(state: State, candidate: Candidate) -> None:
    """The first run of what stands gives the reference; everything else is held against it.

    Raises:
        ApplianceError: nothing can be held against it.
    """
    last = candidate.runs[-1]
    if not state.reference:
        state.reference, trouble = gate.reference(last.answers)
        if trouble:
            state.reference = {}
            candidate.runs.pop()
            raise ApplianceError(trouble)
        return
    lost = sum(window.failed for window in last.windows)
    why = gate.fault(state.reference, last.answers) or (f"{lost} requests failed or were cut" if lost else None)
    if why and candidate.name != state.best:
        candidate.verdict, candidate.why = "wrong", why


def _decide(state: State, rules: Rules, tell: Tell) -> None:
    """A verdict on every challenger that has been run often enough."""
    best = state.named(state.best)
    sure = objective.confidence(sum(bool(one.runs) or one.verdict == "open" for one in state.candidates) - 1)
    for one in open_ones(state):
        if not one.runs or not best.runs:
            continue
        gain = rules.aim.gain(best.scores, one.scores, sure)
        one.gain = (gain.value, gain.low, gain.high)
        again = len(one.runs) >= 2 and len(best.runs) >= 2
        if not objective.better(gain) or (again and not objective.better(_again(one, best, rules, sure))):
            one.verdict, one.why = "no better", _in_words(gain)
        elif again:
            one.verdict, one.why = "kept", _in_words(gain)
            best.verdict, best.why = "no better", f"{one.name} took over"
            state.best = one.name
            _rebase(state, one)
        else:
            tell(f"{one.name}: looks {gain.value:.2f} times as good as {best.name}; once more to be sure")
            return
        tell(f"{one.name}: {one.verdict} ({one.why}, against {best.name})")
        return


def _again(one: Candidate, best: Candidate, rules: Rules, sure: float) -> Interval:
    """By the last runs alone: the first one was what drew attention to it, so it proves less than it shows."""
    before, after = ([window.score for window in candidate.runs[-1].windows] for candidate in (best, one))
    return rules.aim.gain(before, after, sure)


def _in_words(gain: Interval) -> str:
    return f"{gain.value:.3f} times, {gain.low:.3f} to {gain.high:.3f}"


def _rebase(state: State, best: Candidate) -> None:
    """Switches are tried on top of what stands: an open one takes over its layout and switches."""
    for one in state.candidates:
        if one.stage == "switches" and one.verdict == "open" and not one.runs:
            one.layout = best.layout
            one.settings = {**best.settings, **one.settings}
            one.variables = {**best.variables, **one.variables}
            one.flags = _joined(best.flags, one.flags)


def _joined(before: Sequence[str], own: Sequence[str]) -> list[str]:
    """Flags of both; what a switch sets itself is not there twice."""
    return [*before, *own] if not own or own[0] not in before else list(own)


def eta(state: State) -> str:
    """What is left, by what runs took so far: at least one run of each open challenger."""
    took = [run.took_s for one in state.candidates for run in one.runs]
    left = len(open_ones(state)) + (0 if state.named(state.best).runs else 1)
    if not took:
        return f" ({left} to go)"
    return f" (at least {left} to go, about {left * sum(took) / len(took) / 60:.0f} min)"


def begin(key: dict[str, object], plan: dict[str, object], candidates: Sequence[Candidate]) -> State:
    """A new experiment; the first candidate is what stands."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return State(key=key, plan=plan, begun=now, candidates=list(candidates), best=candidates[0].name)


def plan_of(rules: Rules, windows: int) -> dict[str, object]:
    """What makes an experiment this one: load, objective, how much of it."""
    return {
        "workload": {**asdict(rules.work), "asks": [[a.at_s, a.input, a.output] for a in rules.work.asks]},
        "objective": asdict(rules.aim),
        "windows": windows,
    }
