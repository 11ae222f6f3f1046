"""Every host, constructed or captured: its plan and its report are what the reviewed tables say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from dsv4_pd.host.capture import from_json, to_json
from dsv4_pd.host.read import read_facts

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
