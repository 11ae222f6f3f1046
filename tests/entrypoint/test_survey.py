"""survey: each question is asked once, of the environment and the machine that were given, of nothing else."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dsv4_pd
import pytest
from dsv4_pd.doctor import preflight
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.errors import HardwareError, SettingsError, TemporaryError
from dsv4_pd.host.machine import Live, Replay
from dsv4_pd.host.numa import Permission
from dsv4_pd.plan import model_files, profiles, show, surroundings
from dsv4_pd.plan.paths import share_dir
from dsv4_pd.plan.programs import PER_RUN, ConfigFile
from dsv4_pd.plan.survey import survey
from dsv4_pd.run import files, serve
from support.plans import eight_cards, make
from support.ports import free_ports

PACKAGE = Path(dsv4_pd.__file__).parent
HOSTS = Path(__file__).parents[1] / "hosts"


class Asked(Live):
    """This machine with a captured one's cards, counting what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.other = Replay(HOSTS / "eight-two-sockets")

    def text(self, path: str) -> str | None:
        self.count[path] += 1
        return self.other.text(path)

    def names(self, path: str) -> tuple[str, ...]:
        return self.other.names(path)

    def link(self, path: str) -> str | None:
        return self.other.link(path)

    def nvml(self) -> dict[str, Any]:
        self.count["nvml"] += 1
        return self.other.nvml()

    def numa(self, node: int) -> Permission:
        self.count["numa"] += 1
        return Permission("preferred", "asked")


def counted(monkeypatch: pytest.MonkeyPatch, count: Counter[str], module: Any, name: str) -> None:
    real: Callable[..., Any] = getattr(module, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        count[name] += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, wrapped)


def environment(root: Path) -> dict[str, str]:
    names = ("PORT", "OPS_PORT", "PREFILL_PORT", "DECODE_PORT", "BOOTSTRAP_PORT", "PREFILL_NCCL_PORT",
             "DECODE_NCCL_PORT", "ROUTER_METRICS_PORT")  # fmt: skip
    ports = {f"DSV4_{name}": str(port) for name, port in zip(names, free_ports(len(names)), strict=True)}
    return {"DSV4_RUN_DIR": str(root / "r"), "DSV4_STATE_DIR": str(root / "s"), "HOME": str(root), **ports}


def test_every_question_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine, count = Asked(), Counter[str]()
    for module, name in ((profiles, "parse"), (model_files, "find"), (surroundings, "read_shape"),
                         (surroundings, "installed_versions"), (surroundings, "bind_refusal")):  # fmt: skip
        counted(monkeypatch, count, module, name)
    situation = survey(environment(tmp_path), machine)
    examine(situation)
    show.as_dict(situation)
    assert {machine.count["nvml"], machine.count["numa"], count["find"], count["installed_versions"]} == {1}
    assert count["parse"] == len(profiles.available(share_dir() / "config" / "profiles"))
    assert count["bind_refusal"] == 8 and count["read_shape"] == 1  # one a port
    decode = next(program for program in situation.planned().programs if program.name == "decode")
    assert decode.argv[:3] == ("numactl", "--cpunodebind=1", "--preferred=1")  # what the dry run allowed


def test_the_process_environment_plays_no_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {**environment(tmp_path), "UCX_TLS": "tcp"}
    monkeypatch.setenv("DSV4_PORT", "nonsense")
    monkeypatch.setenv("DSV4_MODLE", "x")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    situation = survey(given, Asked())
    given["DSV4_PORT"] = given["UCX_TLS"] = "changed later"
    assert situation.settings.port != 8000 and situation.env("UCX_TLS") == "tcp"
    assert "CUDA_VISIBLE_DEVICES" not in situation.planned().environ
    with pytest.raises(SettingsError, match="DSV4_PORT: found 'changed later'"):
        survey(given, Asked())


def test_below_the_command_line_nobody_reads_the_process_environment() -> None:
    """Whole wings, by their source: an `os.environ` that slips in would make what is shown differ from what runs."""
    found = [
        str(path.relative_to(PACKAGE))
        for wing in ("settings", "host", "plan", "doctor")
        for path in (PACKAGE / wing).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
        and isinstance(node.value, ast.Name) and node.value.id == "os"
    ]  # fmt: skip
    assert set(found) <= {"doctor/link/agent.py"}  # runs in the engine's interpreter, with what it was given


def test_a_refusal_is_part_of_the_situation_and_the_checks_still_speak() -> None:
    situation = survey({}, Replay(HOSTS / "no-gpu"))
    assert situation.plan is None and isinstance(situation.refusal, HardwareError)
    assert len(examine(situation)) > 40
    with pytest.raises(HardwareError, match="no GPU visible"):
        preflight.refuse(situation)


def test_an_extra_argument_is_refused_together_with_every_other_problem() -> None:
    environ = {"DSV4_PORT": "x", "DSV4_DECODE_EXTRA_ARGS": "--port 1", "DSV4_ROUTER_EXTRA_ARGS": "--log-level debug"}
    with pytest.raises(SettingsError) as caught:
        survey(environ, Replay(HOSTS / "eight-two-sockets"))
    assert {problem.subject for problem in caught.value.problems} == set(environ)


def test_a_value_drawn_by_each_start_is_shown_as_such(tmp_path: Path) -> None:
    plan = make({}, eight_cards(), tmp_path)
    key = ConfigFile(tmp_path / "drawn.key", PER_RUN)
    situation = replace(survey({}, Replay(HOSTS / "eight-two-sockets")), plan=replace(plan, files=(*plan.files, key)))
    assert show.as_dict(situation)["files"][str(key.path)] == "<per run>"
    drawn = []
    for _ in range(2):
        files.write((key,))
        drawn.append(key.path.read_text(encoding="utf-8"))
    assert len(set(drawn)) == 2 and all(len(text) > 30 for text in drawn)


@pytest.mark.parametrize("key", ["k3y-of-mine", "*** k3y"])
def test_plan_masks_the_key_and_nothing_else(tmp_path: Path, key: str) -> None:
    environ = {"DSV4_API_KEY": key, "DSV4_DECODE_EXTRA_ARGS": "--crash-dump-folder '/a/*** b'", "MONKEY": "true"}
    plan = make(environ, eight_cards(), tmp_path)
    shown = show.as_dict(replace(survey({}, Replay(HOSTS / "eight-two-sockets")), plan=plan))
    assert key not in str(shown)
    for file in plan.files:
        assert shown["files"][str(file.path)] == file.text.replace(key, "<secret>")
    assert [program["argv"] for program in shown["programs"]] == [list(program.argv) for program in plan.programs]


def test_a_profile_s_defaults_yield_and_its_model_is_the_shipped_one() -> None:
    plan = make({"DSV4_PROFILE": "demo-cpu", "DSV4_CONTEXT_LENGTH": "512"}, eight_cards())
    assert (plan.settings.context_length, plan.settings.numa) == (512, "off")
    assert plan.settings.model.endswith("demo/model")


@pytest.mark.parametrize(("swept", "surveys"), [(0, 1), (3, 2)])
def test_serve_looks_again_only_after_it_swept_orphans(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, swept: int, surveys: int
) -> None:
    """What a killed run left held cards and ports when the plan was made."""
    seen: list[Any] = []

    def stand_in(environ: Mapping[str, str], machine: Any) -> Any:  # hides what a survey reads; only its place counts
        real = survey(environ, Asked())
        seen.append(real)
        return real

    def stop(situation: Any) -> Any:
        assert situation is seen[-1]
        raise TemporaryError("far enough")

    monkeypatch.setattr(serve, "survey", stand_in)
    monkeypatch.setattr(serve, "sweep", SimpleNamespace(kill=lambda run: swept))
    monkeypatch.setattr(preflight, "refuse", stop)
    with pytest.raises(TemporaryError, match="far enough"):
        serve.run(environment(tmp_path))
    assert len(seen) == surveys
