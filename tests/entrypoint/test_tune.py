"""The experiment of `dsv4-pd tune` on a simulated appliance; what that hides, tests/support/simulated.py says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from dsv4_pd.bench.load import Request
from dsv4_pd.bench.tune import predict, state
from dsv4_pd.bench.tune.experiment import Rules, begin, go, plan_of
from dsv4_pd.bench.tune.forecast import errors, seen
from dsv4_pd.bench.tune.live import window
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.report import html
from dsv4_pd.bench.tune.state import Candidate, State
from dsv4_pd.bench.tune.workload import Ask, Workload
from dsv4_pd.errors import ApplianceError, SettingsError
from dsv4_pd.settings.layout import parse
from support.simulated import Simulated, play

# Answers only: two servers that decode beat one, and nothing is read that could stall them.
DECODE = Workload("answers", (Ask(0.0, 16, 64),) * 24, 12)
# Long prompts between running answers, and answers count only where their tokens come steadily: a whole server's don't.
MIXED = Workload("mixed", tuple(Ask(0.0, *((3000, 2) if n // 2 % 2 else (16, 100))) for n in range(24)), 6)
STEADY = Objective("throughput", itl_s=0.018)
ANY = Objective("throughput")
KEY: dict[str, object] = {"cards": [], "driver": "none", "engine": "0.5.23"}


def two(first: str = "pd:1+1", second: str = "replicas:2x1") -> list[Candidate]:
    return [Candidate(name=name, stage="layout", layout=name) for name in (first, second)]


def experiment(work: Workload, aim: Objective, found: list[Candidate] | None = None) -> tuple[State, Rules]:
    rules = Rules(work, aim, everything=True)
    return begin(KEY, plan_of(rules, 5), found or two()), rules


def quiet(text: str) -> None:
    """Nobody reads it."""


@pytest.mark.parametrize("present", ["pd:1+1", "replicas:2x1"])
@pytest.mark.parametrize(("work", "aim", "right"), [(DECODE, ANY, "replicas:2x1"), (MIXED, STEADY, "pd:1+1")])
def test_the_right_one_of_two_layouts_is_chosen(work: Workload, aim: Objective, right: str, present: str) -> None:
    """Whichever of the two is in force at the beginning."""
    other = next(name for name in ("pd:1+1", "replicas:2x1") if name != present)
    now, rules = experiment(work, aim, two(present, other))
    runner = Simulated(work, aim)
    go(now, runner, rules, lambda s: None, quiet)
    assert now.best == right and now.done
    assert len(now.named(right).runs) == (1 if right == present else 2), "what takes over has run twice"
    assert now.named(other).verdict == ("kept" if other == right else "no better")


def test_no_difference_keeps_what_stands() -> None:
    """The same thing under another name is never a gain."""
    same = [Candidate(name=name, stage="layout", layout="replicas:2x1") for name in ("a", "b", "c", "d", "e")]
    now, rules = experiment(DECODE, ANY, same)
    go(now, Simulated(DECODE, ANY), rules, lambda s: None, quiet)
    assert now.best == "a" and {one.verdict for one in now.candidates[1:]} == {"no better"}


def test_one_lucky_start_is_not_enough() -> None:
    now, rules = experiment(DECODE, ANY, two("replicas:2x1", "pd:1+1"))

    class Lucky(Simulated):
        def run(self, candidate: Candidate, number: int) -> state.Measured:
            self.pace = {"pd:1+1": 9.0 if number == 1 else 0.2}
            return super().run(candidate, number)

    runner = Lucky(DECODE, ANY)
    go(now, runner, rules, lambda s: None, quiet)
    assert runner.ran == ["replicas:2x1", "pd:1+1", "replicas:2x1", "pd:1+1"]
    assert now.best == "replicas:2x1"


def test_wrong_answers_and_failed_starts_are_never_chosen_however_fast() -> None:
    names = ["pd:1+1", "replicas:2x1", "wrong", "broken"]
    found = [Candidate(name=n, stage="layout", layout=n if ":" in n else "replicas:2x1") for n in names]
    now, rules = experiment(DECODE, ANY, found)
    pace = {"wrong": 50.0, "broken": 50.0}
    go(now, Simulated(DECODE, ANY, wrong=frozenset({"wrong"}), broken=frozenset({"broken"}), pace=pace), rules,
       lambda s: None, quiet)  # fmt: skip
    assert now.best == "replicas:2x1"
    assert (now.named("wrong").verdict, now.named("broken").verdict) == ("wrong", "failed")
    assert "'5' instead of '4'" in now.named("wrong").why and "out of memory" not in now.named("wrong").why


def test_what_stands_must_run() -> None:
    now, rules = experiment(DECODE, ANY)
    with pytest.raises(ApplianceError, match="before it served"):
        go(now, Simulated(DECODE, ANY, broken=frozenset({"pd:1+1"})), rules, lambda s: None, quiet)
    assert not now.done and now.candidates[1].verdict == "open"


@pytest.mark.parametrize("after", range(4))
def test_an_interrupted_experiment_resumes_where_it_was(tmp_path: Path, after: int) -> None:
    file = tmp_path / "tuned" / "experiment.json"
    now, rules = experiment(DECODE, ANY)
    state.save(file, now)
    runner = Simulated(DECODE, ANY, stop_after=after)
    with pytest.raises(KeyboardInterrupt):
        go(now, runner, rules, lambda s: state.save(file, s), quiet)
    kept = state.load(file)
    assert kept is not None and sum(len(one.runs) for one in kept.candidates) == after
    rest = Simulated(DECODE, ANY)
    go(kept, rest, rules, lambda s: state.save(file, s), quiet)
    whole = Simulated(DECODE, ANY)
    straight, rules = experiment(DECODE, ANY)
    go(straight, whole, rules, lambda s: None, quiet)
    assert runner.ran + rest.ran == whole.ran, "no run is done twice, none is left out"
    assert kept.best == straight.best
    assert [one.scores for one in kept.candidates] == [one.scores for one in straight.candidates]


def test_a_damaged_state_is_named_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "experiment.json"
    file.write_text('{"format": 1, "key"')
    with pytest.raises(SettingsError, match="--reset"):
        state.load(file)
    assert file.exists() and state.load(tmp_path / "none.json") is None


def test_switches_stand_on_what_was_kept() -> None:
    found = [
        *two(),
        *(
            Candidate(name=n, stage="switches", layout="pd:1+1", variables={f"SGLANG_{n}": "1"})
            for n in ("A", "B", "C")
        ),
    ]
    now, rules = experiment(DECODE, ANY, found)
    go(now, Simulated(DECODE, ANY, pace={"A": 1.2, "B": 1.0, "C": 1.5}), rules, lambda s: None, quiet)
    assert now.best == "C"
    best = now.named("C")
    assert best.layout == "replicas:2x1" and best.variables == {"SGLANG_A": "1", "SGLANG_C": "1"}
    assert now.named("B").verdict == "no better"


def test_the_model_is_near_a_simulation_and_says_how_far_it_was_off() -> None:
    names = ["pd:1+3x1", "pd:2x1+2x1", "pd:3x1+1", "replicas:4x1"]
    work = Workload("mixed", tuple(Ask(0.0, 600, 60) for _ in range(48)), 16)
    now, rules = experiment(work, ANY, [Candidate(name=n, stage="layout", layout=n) for n in names])
    go(now, Simulated(work, ANY, windows=3), replace(rules, everything=False), lambda s: None, quiet)
    off = errors(now)
    assert len(off) >= 2 and all(abs(value) < 0.3 for value in off.values()), off
    costs = predict.calibrate(*(seen(now.named(n), work) for n in names[:2]))
    guessed = {n: predict.predict(parse(n), work, costs, ANY).tokens_per_s for n in names}
    real = {n: fmean(_rate(play(parse(n), work, s)) for s in range(3)) for n in names}
    assert all(abs(guessed[n] / real[n] - 1) < 0.25 for n in names), (guessed, real)
    near = [n for n in names if real[n] > 0.9 * max(real.values())]
    worth = dict(zip(names, predict.worth([guessed[n] for n in names], "throughput"), strict=True))
    assert all(worth[n] for n in near), "what is among the best is run"


def _rate(found: list[Request]) -> float:
    return sum(r.output_tokens for r in found) / max(r.start + r.latency for r in found)


def test_what_the_model_finds_far_behind_is_not_run_unless_asked_for() -> None:
    names = ["replicas:4x1", "pd:2x1+2x1", "pd:1+3x1", "pd:3x1+1"]
    read = Workload("prompts", (Ask(0.0, 4000, 2),) * 24, 12)  # reading alone counts: one prefill is a third of three
    for everything, runs in ((False, 3), (True, 4)):
        now, rules = experiment(read, ANY, [Candidate(name=n, stage="layout", layout=n) for n in names])
        runner = Simulated(read, ANY, windows=3)
        go(now, runner, replace(rules, everything=everything), lambda s: None, quiet)
        assert len(set(runner.ran)) == runs
        assert (now.named("pd:1+3x1").verdict == "not worth a run") is not everything


def test_the_report_shows_what_was_tried_gained_and_refused() -> None:
    found = [
        *two(),
        Candidate(name="pd:<8>", stage="layout", layout="pd:1+1", verdict="unfit", why="too little <memory>"),
    ]
    now, rules = experiment(DECODE, ANY, found)
    go(now, Simulated(DECODE, ANY), rules, lambda s: None, quiet)
    page = html(now, ANY, {"gpus": [], "cpus": 2, "cpu": "c"})
    assert "too little &lt;memory&gt;" in page and "pd:&lt;8&gt;" in page and "<memory>" not in page
    assert "stands" in page and "what was in force" in page and "not done" not in page


def test_a_window_without_an_answer_is_kept_in_the_file(tmp_path: Path) -> None:
    lost = Request("x", 0.0, 0.0, (), 0.0, 9, 0, False, "refused")
    for aim in (ANY, Objective("latency")):
        now, _ = experiment(DECODE, aim)
        run = Simulated(DECODE, aim).run(now.candidates[0], 1)
        run.windows.append(window(DECODE.load("x", tmp_path / "t", 1), [lost], aim))
        now.candidates[0].runs.append(run)
        state.save(tmp_path / "e.json", now)
        assert state.load(tmp_path / "e.json") == now
        assert aim.gain([run.windows[-1].score] * 3, [run.windows[0].score] * 3, 0.95).low > 1
