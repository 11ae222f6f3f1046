"""Receipts of `dsv4-pd tune`: followed where they hold, named where they don't, and never in the operator's way."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dsv4_pd.bench.tune import receipt
from dsv4_pd.bench.tune.experiment import Rules, begin, go, plan_of
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.state import Candidate, State, save
from dsv4_pd.bench.tune.workload import Ask, Workload
from dsv4_pd.cli import tune as cli
from dsv4_pd.host.machine import Live
from dsv4_pd.plan import show
from dsv4_pd.plan.around import tuned
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey
from dsv4_pd.settings.load import load
from support.simulated import Simulated

WORK = Workload("answers", (Ask(0.0, 16, 64),) * 24, 12)
AIM = Objective("throughput", ttft_s=2.0)


def environ(root: Path, **more: str) -> dict[str, str]:
    return {"DSV4_PROFILE": "demo-cpu", "DSV4_STATE_DIR": str(root / "state"), "DSV4_RUN_DIR": str(root / "run"),
            "HOME": str(root), "PATH": "/usr/bin:/bin", **more}  # fmt: skip


def experiment(root: Path, *more: Candidate) -> State:
    """Of this machine, on simulated appliances: replicas win."""
    given = environ(root)
    situation = survey(given, Live())
    found = [Candidate(name=name, stage="layout", layout=name) for name in ("pd:1+1", "replicas:2x1")]
    rules = Rules(WORK, AIM, everything=True)
    now = begin(tuned.key_of(load(given), situation.facts, given), plan_of(rules, 5), [*found, *more])
    pace = {one.name: 1.5 for one in more}
    return go(now, Simulated(WORK, AIM, pace=pace), rules, lambda s: None, lambda text: None)


def written(root: Path, *more: Candidate) -> dict[str, Any]:
    data = receipt.values(experiment(root, *more), WORK, AIM)
    receipt.write(root / "state", data)
    return data


def layout(found: Situation) -> str:
    return str(found.planned().placement.layout)


@pytest.mark.parametrize("spelled", [{}, {"DSV4_LAYOUT": "auto"}, {"DSV4_LAYOUT": ""}, {"dsv4_layout": "AUTO"}])
def test_a_receipt_decides_what_is_left_open(tmp_path: Path, spelled: dict[str, str]) -> None:
    assert layout(survey(environ(tmp_path, **spelled), Live())) == "pd:1+1"
    data = written(tmp_path)
    found = survey(environ(tmp_path, **spelled), Live())
    assert layout(found) == data["chosen"]["layout"] == "replicas:2x1"
    assert [p.name for p in found.planned().programs if p.name.startswith("single")] == ["single-1", "single-2"]
    text = show.as_text(found)
    assert "tuned: layout replicas:2x1: measured best here" in text
    assert f"{data['measured']['per_s']:.3g} requests/s" in text and "12 requests at once" in text


def test_without_a_receipt_nothing_is_said_of_how_many_it_serves(tmp_path: Path) -> None:
    found = survey(environ(tmp_path), Live())
    assert found.tuned is None and not show.sections(found)["tuned"]
    assert "requests/s" not in show.as_text(found)


@pytest.mark.parametrize("own", [{"DSV4_LAYOUT": "pd"}, {"DSV4_MODE": "single"}, {"dsv4_layout": "pd:2x1+1"}])
def test_what_the_operator_says_stands(tmp_path: Path, own: dict[str, str]) -> None:
    before = layout(survey(environ(tmp_path, **own), Live()))
    written(tmp_path)
    found = survey(environ(tmp_path, **own), Live())
    assert layout(found) == before != "replicas:2x1"
    assert found.tuned is not None and f"not followed, because {next(iter(own)).upper()} is set" in found.tuned.line
    assert found.tuned.users is None, "it was measured with another layout"


@pytest.mark.parametrize("part", ["cards", "driver", "image", "engine", "model", "profile", "preset"])
def test_a_stale_receipt_is_named_and_ignored(tmp_path: Path, part: str) -> None:
    data = written(tmp_path)
    data["key"] = {**data["key"], part: ["NVIDIA H200"] * 2 if part == "cards" else "another"}
    receipt.write(tmp_path / "state", data)
    found = survey(environ(tmp_path), Live())
    assert layout(found) == "pd:1+1"
    assert found.tuned is not None and "is stale and is ignored" in found.tuned.line and part in found.tuned.line
    assert "requests/s" not in show.as_text(found)


def test_another_image_makes_it_stale(tmp_path: Path) -> None:
    written(tmp_path)
    found = survey(environ(tmp_path, DSV4_IMAGE="dsv4-pd:next"), Live())
    assert found.tuned is not None and "image" in found.tuned.line and layout(found) == "pd:1+1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no toml [",
        "format = 2\n",
        "format = 1\n[chosen]\nlayout = 5\n[key]\n",
        'format = 1\n[chosen]\nlayout = "pd:3+3"\n[key]\n',
        'format = 1\nkey = 3\n[chosen]\nlayout = "pd:1+1"\n',
        "\x00\xff",
    ],
)
def test_a_damaged_receipt_is_named_and_ignored(tmp_path: Path, text: str) -> None:
    path = tuned.path_of(tmp_path / "state")
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    found = survey(environ(tmp_path), Live())
    assert layout(found) == "pd:1+1"
    assert found.tuned is not None and "ignored" in found.tuned.line and str(path) in found.tuned.line


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("variables", {"LD_PRELOAD": "/tmp/x.so"}),
        ("settings", {"api_key": "x"}),
        ("settings", {"no_setting": "1"}),
    ],
)
def test_a_receipt_sets_nothing_but_settings_and_the_engines_variables(tmp_path: Path, part: str, value: Any) -> None:
    data = written(tmp_path)
    data["chosen"] = {**data["chosen"], part: value}
    receipt.write(tmp_path / "state", data)
    found = survey(environ(tmp_path), Live())
    assert layout(found) == "pd:1+1" and found.tuned is not None and "no receipt" in found.tuned.line


def test_switches_that_were_kept_are_followed_beside_the_operators_own(tmp_path: Path) -> None:
    switch = Candidate(name="s", stage="switches", layout="pd:1+1", variables={"SGLANG_X": "1"},
                       settings={"chunked_prefill_size": "1024"}, flags=["--random-seed", "7"])  # fmt: skip
    data = written(tmp_path, switch)
    assert data["chosen"]["variables"] == {"SGLANG_X": "1"} and data["chosen"]["layout"] == "replicas:2x1"
    plan = survey(environ(tmp_path, DSV4_PREFILL_EXTRA_ARGS="--watchdog-timeout 99"), Live()).planned()
    assert plan.environ["SGLANG_X"] == "1" and plan.settings.chunked_prefill_size == 1024
    words = " ".join(next(program for program in plan.programs if program.name == "single-1").argv)
    assert "--watchdog-timeout 99" in words and "--random-seed 7" in words
    own = survey(environ(tmp_path, DSV4_CHUNKED_PREFILL_SIZE="512", SGLANG_X="0"), Live()).planned()
    assert own.settings.chunked_prefill_size == 512 and own.environ["SGLANG_X"] == "0"


def test_the_file_is_toml_whatever_stands_in_it(tmp_path: Path) -> None:
    data = {"format": 1, "a": 'quote " and \\ and ü', "t": {"x y": [1, 2.5], "sub": {"k": True, "e": {}}}, "n": {}}
    assert tomllib.loads(receipt.toml(data)) == data


def test_show_export_and_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    run = CliRunner()
    assert "nothing was chosen" in run.invoke(cli.command, ["--show"]).output
    written(tmp_path)
    save(tmp_path / "state/tuned/experiment.json", experiment(tmp_path))
    shown = run.invoke(cli.command, ["--show"]).output
    assert "replicas:2x1" in shown and "measured best here" in shown and "was in force" in shown
    assert run.invoke(cli.command, ["--export", str(tmp_path / "out.json")]).exit_code == 0
    assert '"replicas:2x1"' in (tmp_path / "out.json").read_text()
    assert "removed" in run.invoke(cli.command, ["--reset"]).output
    assert not list((tmp_path / "state/tuned").glob("*.toml")) and not list((tmp_path / "state/tuned").glob("*.json"))
    assert survey(environ(tmp_path), Live()).tuned is None
