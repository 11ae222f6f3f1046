"""`dsv4-pd tune` from the command line to the receipt, with the appliances simulated or replaced: see each test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from dsv4_pd.bench.load import LoadStep, Request
from dsv4_pd.bench.tune import alone, live, state
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.state import Candidate, Measured
from dsv4_pd.bench.tune.workload import Ask, Workload
from dsv4_pd.cli import tune as cli
from dsv4_pd.client.child import Running
from dsv4_pd.errors import SettingsError, TemporaryError
from dsv4_pd.host.machine import Live
from dsv4_pd.plan.survey import survey
from dsv4_pd.settings.layout import parse
from dsv4_pd.verify import reference
from support.simulated import Simulated, play

WORK = Workload("w", (Ask(0.0, 16, 64),) * 8, 4)
DECODE = '{"input": 16, "output": 64}\n' * 24


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of this appliance's own; nothing real is started."""
    values = {"DSV4_PROFILE": "demo-cpu", "DSV4_STATE_DIR": "state", "DSV4_RUN_DIR": "run"}
    for name, value in values.items():
        monkeypatch.setenv(name, str(tmp_path / value) if name.endswith("DIR") else value)
    monkeypatch.setattr(alone, "refuse", lambda situation: None)  # ports of the machine that tests run on
    monkeypatch.setattr(
        cli, "_appliances", lambda bench, rules, windows, told: Simulated(rules.work, rules.aim, windows)
    )
    (tmp_path / "trace.jsonl").write_text(DECODE)
    return tmp_path


def tune(root: Path, *words: str) -> Result:
    trace = ["--trace", str(root / "trace.jsonl"), "--concurrency", "12"]
    return CliRunner().invoke(cli.command, ["layout", *trace, *words])


def experiment(root: Path) -> state.State:
    found = state.load(root / "state/tuned/experiment.json")
    assert found is not None
    return found


def test_it_measures_chooses_and_the_next_start_follows(root: Path) -> None:
    done = tune(root)
    assert done.exit_code == 0, done.output
    assert "tuned: layout replicas:2x1: measured best here" in done.output
    now = experiment(root)
    assert now.present.name == "pd:1+1" and now.best == "replicas:2x1"
    assert now.named("single:2").verdict == "unfit" and "no GPUs" in now.named("single:2").why
    assert str(survey(os.environ, Live()).planned().placement.layout) == "replicas:2x1"
    assert "single:2" in (root / "state/tuned/experiment.html").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_what_is_known_and_no_receipt(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    class Interrupted(Simulated):
        def run(self, candidate: Candidate, number_: int) -> Measured:
            if self.ran:
                os.kill(os.getpid(), number)
            return super().run(candidate, number_)

    before = signal.getsignal(number)
    with monkeypatch.context() as patched:
        patched.setattr(cli, "_appliances", lambda b, rules, windows, told: Interrupted(rules.work, rules.aim, windows))
        done = CliRunner().invoke(
            cli.command, ["layout", "--trace", str(root / "trace.jsonl"), "--concurrency", "12"], standalone_mode=False
        )
    assert done.return_value == 128 + number and "goes on" in done.output
    assert signal.getsignal(number) is before
    now = experiment(root)
    assert not now.done and [len(one.runs) for one in now.candidates if one.runs] == [1]
    assert not (root / "state/tuned/layout.toml").exists()
    assert tune(root).exit_code == 0 and experiment(root).best == "replicas:2x1"


def test_another_load_does_not_continue_an_experiment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(cli, "_appliances", lambda b, rules, w, told: Simulated(rules.work, rules.aim, w, stop_after=1))
        tune(root)
    other = tune(root, "--ttft", "9")
    assert isinstance(other.exception, SettingsError) and "--reset" in str(other.exception)
    assert tune(root).exit_code == 0
    assert tune(root, "--ttft", "9").exit_code == 0, "the old one is done: it is set aside"
    assert len(list((root / "state/tuned").glob("experiment*.json"))) == 2


def test_a_load_of_arrivals_needs_a_bound(root: Path) -> None:
    (root / "trace.jsonl").write_text('{"at_s": 0, "input": 9, "output": 9}\n{"at_s": 1, "input": 9, "output": 9}\n')
    done = CliRunner().invoke(cli.command, ["layout", "--trace", str(root / "trace.jsonl")])
    assert done.exit_code == 2 and "--objective latency" in done.output


def test_nothing_starts_beside_a_running_appliance(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(situation: object) -> None:
        raise TemporaryError("busy")

    monkeypatch.setattr(alone, "refuse", busy)
    done = tune(root)
    assert isinstance(done.exception, TemporaryError) and not (root / "state/tuned/experiment.json").exists()


def test_the_real_runner_starts_what_the_candidate_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start, answers and load are replaced: tests/pair/test_tune.py has the real ones."""
    begun: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
    loads: list[LoadStep] = []

    @contextmanager
    def started(settings: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[Running]:
        begun.append((settings, variables))
        yield Running("http://a", "http://o", 2.0)

    def run(wanted: list[LoadStep], target: Any) -> dict[str, list[Request]]:
        loads.extend(wanted)
        assert all(Path(load.dataset.removeprefix("trace:")).exists() for load in wanted)
        return {load.name: play(parse("pd:1+1"), WORK if load.name != "alone" else WORK.alone(4), 1) for load in wanted}

    monkeypatch.setattr(live, "started", started)
    monkeypatch.setattr(live, "run", run)
    monkeypatch.setattr(live, "Ops", lambda url: SimpleNamespace(status=lambda: {"model": "m"}))
    monkeypatch.setattr(reference, "ask", lambda api, seed: {"q": "a"})
    same, extra = {"cache_dir": "/c"}, {"prefill_extra_args": "--own 1", "decode_extra_args": ""}
    runner = live.Appliances(WORK, Objective(), 3, Path("/e"), same, None, lambda text: None, extra)
    one = Candidate(name="s", stage="switches", layout="pd:1+1", settings={"chunked_prefill_size": "64"},
                    variables={"SGLANG_X": "1"}, flags=["--flag", "a b"])  # fmt: skip
    found, again = runner.run(one, 1), runner.run(one, 2)
    assert begun[0] == (
        {"cache_dir": "/c", "chunked_prefill_size": "64", "layout": "pd:1+1",
         "prefill_extra_args": "--own 1 --flag 'a b'", "decode_extra_args": "--flag 'a b'"},
        {"SGLANG_X": "1"},
    )  # fmt: skip
    assert len(found.windows) == 3 and all(w.failed == 0 and w.score > 0 for w in found.windows)
    assert found.ready_s == 2.0 and found.alone_ttft > 0 and len(found.answers) == 2
    seeds = [load.seed for load in loads]
    assert len(set(seeds)) == len(seeds), "fresh prompts in each window and each run"
    assert again.windows[0].per_s == found.windows[0].per_s
