"""The command line as a person meets it: whole processes, exit codes, what stands on the screen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dsv4_pd.cli.app import COMMANDS
from dsv4_pd.host import capture
from support.plans import eight_cards


def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", **environ}
    return subprocess.run([sys.executable, "-m", "dsv4_pd", *args], capture_output=True, text=True, env=env,
                          timeout=60, check=False)  # fmt: skip


@pytest.fixture
def facts(tmp_path: Path) -> str:
    file = tmp_path / "facts.json"
    file.write_text(capture.to_json(eight_cards()))
    return str(file)


@pytest.mark.parametrize("command", [*COMMANDS, ""])
def test_help_works_anywhere(command: str) -> None:
    done = run(*([command] if command else []), "--help", DSV4_PORT="nonsense")
    assert done.returncode == 0 and "sage" in done.stdout


def test_a_misspelt_command_gets_a_suggestion() -> None:
    done = run("statsu")
    assert done.returncode == 2 and "did you mean 'status'?" in done.stderr


def test_plan_prints_the_table_and_masks_the_key(facts: str, tmp_path: Path) -> None:
    done = run("plan", "--facts", facts, DSV4_API_KEY="hunter2hunter2", DSV4_RUN_DIR=str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout + done.stderr and "***" in done.stdout
    assert "GPU-00000007" in done.stdout and "0-31" in done.stdout and "[program:decode]" in done.stdout
    assert not (tmp_path / "r").exists()  # starts nothing, writes nothing


def test_plan_as_json_is_the_same_plan(facts: str) -> None:
    done = run("plan", "--json", "--facts", facts)
    data = json.loads(done.stdout)
    assert [role["numa_node"] for role in data["placement"]["roles"]] == [0, 1]
    assert [program["name"] for program in data["programs"]] == ["prefill", "decode", "router", "guard"]
    assert data["settings"]["DSV4_PORT"] == 8000


@pytest.mark.parametrize("command", ["plan", "serve"])
def test_bad_settings_exit_2_with_every_problem(command: str) -> None:
    done = run(command, DSV4_PORT="x", DSV4_MODLE="y")
    assert done.returncode == 2
    assert "DSV4_PORT: found 'x'" in done.stderr and "did you mean DSV4_MODEL?" in done.stderr


def test_an_unknown_profile_is_a_bad_setting(facts: str) -> None:
    done = run("plan", "--facts", facts, DSV4_PROFILE="rtx-pro-6000-x8")
    assert done.returncode == 2 and "did you mean rtx-pro-6000-8x?" in done.stderr


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_no_gpu_exits_70_and_says_how_to_go_on() -> None:
    done = run("serve")
    assert done.returncode == 70
    assert "no GPU visible" in done.stderr and "--gpus all" in done.stderr and "demo" in done.stderr


def test_status_without_an_appliance_says_so() -> None:
    done = run("status", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "no appliance answers at http://127.0.0.1:9" in done.stderr


def test_missing_engine_names_the_command_that_installs_it(tmp_path: Path) -> None:
    done = run("demo", DSV4_ENGINE_PYTHON=str(tmp_path / "none"), DSV4_RUN_DIR=str(tmp_path / "r"),
               DSV4_STATE_DIR=str(tmp_path / "s"))  # fmt: skip
    assert done.returncode != 0
    assert "make engine" in done.stderr and len(done.stderr.strip().splitlines()) == 1
