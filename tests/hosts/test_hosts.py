"""Every host, constructed or captured: its plan and its report are what the reviewed tables say."""

from __future__ import annotations

import importlib.util
import json
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.doctor.preflight import refuse
from dsv4_pd.host.capture import from_json, to_json
from dsv4_pd.plan import show
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs import owned_flags
from dsv4_pd.plan.programs.environment import child_environment
from dsv4_pd.plan.programs.program import PER_RUN
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.run import files
from supervisor.options import ServerOptions
from support.machines import read_facts
from support.rewording import reworded

HERE = Path(__file__).parent


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hosts_build", HERE / "build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["hosts_build"] = module
    spec.loader.exec_module(module)
    return module


build = _load()
HOSTS = build.hosts()


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_plan_is_the_reviewed_one(folder: Path) -> None:
    assert build.plan_text(build.situation_of(folder)) == (folder / "plan.txt").read_text(encoding="utf-8")


def handed_over(plan: Plan) -> dict[str, Any]:
    """What supervisord makes of the files that `serve` writes: its own parser's answer, by program."""
    plan.paths.logs.mkdir(parents=True)
    files.write(plan.files)
    options = ServerOptions()
    options.realize(["-c", str(plan.paths.supervisor_conf)])
    return {config.name: config for group in options.process_group_configs for config in group.process_configs}


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_plan_is_what_serve_hands_to_supervisord(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    situation = build.situation_of(folder, run)
    golden = (folder / "plan.txt").read_text(encoding="utf-8")
    if situation.plan is None:
        with pytest.raises(type(situation.refusal)):
            refuse(situation)
        assert golden == f"{situation.refusal}\n"
        return
    plan, shown = situation.plan, show.as_dict(situation)
    handed = handed_over(plan)
    assert sorted(handed) == sorted(program["name"] for program in shown["programs"])
    for program in shown["programs"]:
        config = handed[program["name"]]
        assert (shlex.split(config.command), config.environment) == (program["argv"], program["env"])
        words = [f"program {config.name}", "  " + shlex.join(shlex.split(config.command))]
        words += [f"  {k}={shlex.quote(v)}" for k, v in sorted(config.environment.items())]
        text = build.anywhere("\n".join(words)).replace(str(run), str(build.RUN))
        assert text + "\n\n" in golden or golden.endswith(text + "\n")
    on_disk = {str(path): path.read_text(encoding="utf-8") for path in run.iterdir() if path.is_file()}
    drawn = {str(file.path) for file in plan.files if file.drawn}
    assert {shown["files"][path] for path in drawn} == {PER_RUN}
    assert all(len(on_disk.pop(path)) > 40 for path in drawn), "a key of its own for each run"
    assert on_disk == {path: text for path, text in shown["files"].items() if path not in drawn}  # byte for byte
    assert shown["environment"] == dict(plan.environ) == child_environment(plan.environ, PER_RUN)


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_rewording_a_sentence_changes_no_verdict(folder: Path) -> None:
    situation = build.situation_of(folder)
    plain = [(check.name, finding.verdict, finding.subject) for check, finding in examine(situation)]
    assert plain == [(c.name, f.verdict, f.subject) for c, f in examine(reworded(situation))]


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_every_flag_of_the_plan_is_owned_or_free_with_a_reason(folder: Path) -> None:
    known = profiles.read_all(profiles_dir())
    engine = {*owned_flags.engine_owned(known), *owned_flags.ENGINE_FREE}
    router = {*owned_flags.router_owned(), *owned_flags.ROUTER_FREE}
    plan = build.situation_of(folder).plan
    for program in plan.programs if plan else ():
        words = program.argv[program.argv.index("--") + 1 :] if "--" in program.argv else ()
        flags = {word for word in words if word.startswith("--")}
        for file in (file for file in program.files if file.path.suffix == ".yaml"):
            flags |= {f"--{flag}" for flag in yaml.safe_load(file.text)}
        assert flags <= (router if program.name == "router" else engine)


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_report_is_the_reviewed_one(folder: Path) -> None:
    assert build.doctor_text(build.situation_of(folder)) == (folder / "doctor.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_facts_survive_json(folder: Path) -> None:
    facts = read_facts(folder)
    assert from_json(to_json(facts)) == facts


@pytest.mark.parametrize("name", sorted(build.BUILDERS))
def test_constructed_machine_is_fresh(name: str) -> None:
    assert (HERE / name / "machine.json").read_text(encoding="utf-8") == build.text(name)


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_host_has_a_sourced_note(folder: Path) -> None:
    note = (folder / "note.md").read_text(encoding="utf-8")
    assert note.startswith(f"# {folder.name}\n")
    assert "Sources:" in note or "Captured with" in note


def test_there_are_enough_hosts_of_each_kind() -> None:
    wanted = {
        "eight-two-sockets",
        "eight-nps4",
        "four-one-socket",
        "eight-switches",
        "mixed-cards",
        "numa-unknown",
        "memoryless-node",
        "cpuset-excludes-node",
        "vm-one-node",
        "mig-on-one-card",
        "busy-two-cards",
        "no-gpu",
    }
    names = {path.name for path in HOSTS}
    assert wanted <= names and any("h200" in name for name in names)


def test_no_capture_holds_a_serial_or_a_real_uuid() -> None:
    for folder in HOSTS:
        nvml = json.loads((folder / "machine.json").read_text(encoding="utf-8"))["nvml"]
        for index, gpu in enumerate(nvml["gpus"]):
            assert gpu["uuid"] == f"GPU-{index:08x}-0000-4000-8000-{index:012x}"
            assert "serial" not in gpu
