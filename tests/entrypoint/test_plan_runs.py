"""What runs is what `plan` shows: `serve` is started for real and its processes are read from /proc.

Stand-ins for the two interpreters only wait: they hide what engine and router do with their arguments, and show what
they were given. supervisord, the guard and `serve` are the real ones.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.programs.program import PER_RUN
from support.appliance import PORTS
from support.ports import free_ports

KEY = "key-of-this-test"
# supervisord's own additions, and what the interpreters' shell adds
ADDED = {"SUPERVISOR_ENABLED", "SUPERVISOR_PROCESS_NAME", "SUPERVISOR_GROUP_NAME", "SUPERVISOR_SERVER_URL", "PWD"}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name in ("engine", "smg"):
        python = tmp_path / "venvs" / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\nwhile :; do sleep 1; done\n", encoding="ascii")
        python.chmod(0o755)
    ports = {name: str(port) for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)}
    return {
        "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ODD": "a 'b' \"c\" %d $e", "DSV4_PROFILE": "demo-cpu",
        "DSV4_RUN_DIR": str(tmp_path / "run"), "DSV4_STATE_DIR": str(tmp_path / "state"), "DSV4_API_KEY": KEY,
        "DSV4_ENGINE_PYTHON": str(tmp_path / "venvs/engine/bin/python"), "DSV4_LOG_FORMAT": "text",
        "DSV4_DECODE_EXTRA_ARGS": "--crash-dump-folder '/a b/%c'", **ports,
    }  # fmt: skip


@contextlib.contextmanager
def served(environ: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-m", "dsv4_pd", "serve"], env=environ, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(90) == 0


def processes(run: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Program -> argv and environment of its first process, of the supervisord of this run folder."""
    found: dict[str, tuple[list[str], dict[str, str]]] = {}
    for pid in sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
            items = Path(f"/proc/{pid}/environ").read_text(encoding="utf-8").split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        env = {name: value for name, _, value in (item.partition("=") for item in items if item)}
        if env.get("SUPERVISOR_SERVER_URL") == f"unix://{run}/supervisor.sock":
            found.setdefault(env["SUPERVISOR_PROCESS_NAME"], (argv, env))
    return found


def as_shown(real: dict[str, str], shown: dict[str, str]) -> dict[str, str]:
    """What was found, masked as `plan` masks: the key, and whatever each start draws for itself."""
    return {
        name: PER_RUN if shown.get(name) == PER_RUN else value.replace(KEY, "<secret>") for name, value in real.items()
    }


def test_processes_and_files_are_what_plan_shows(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "dsv4_pd", "plan", "--json"]
    plan: dict[str, Any] = json.loads(subprocess.run(command, env=environ, capture_output=True, check=True).stdout)
    names = {program["name"] for program in plan["programs"]}
    with served(environ):
        deadline = time.monotonic() + 120
        while set(running := processes(Path(environ["DSV4_RUN_DIR"]))) != names:
            assert time.monotonic() < deadline, running
            time.sleep(0.2)
        files = {name: Path(name).read_text(encoding="utf-8") for name in plan["files"]}
    for program in plan["programs"]:
        argv, env = running[program["name"]]
        assert argv[-len(program["argv"]) :] == program["argv"]  # behind /bin/sh for a stand-in
        wanted = {**plan["environment"], **program["env"]}
        assert as_shown({name: value for name, value in env.items() if name not in ADDED}, wanted) == wanted
    assert as_shown(files, plan["files"]) == plan["files"]
