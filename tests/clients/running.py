"""One client as a process of its own: what it said of each case, whatever became of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import VENVS

FOLDER = Path(__file__).parent / "scripts"
SCRIPTS = {path.stem: path for path in FOLDER.iterdir() if path.stem.endswith(("_python", "_npm"))}
MOST_S = 600


@dataclass(slots=True)
class Tried:
    """One client: its version, what was tried, and what went wrong of it (None: nothing)."""

    version: str = "?"
    cases: dict[str, str | None] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As it stands in record.json."""
        return {"version": self.version, "cases": self.cases}


def run(name: str, where: Mapping[str, str], folder: Path, most_s: float = MOST_S) -> Tried:
    """Try one client, and print what comes of it."""
    begun, home = time.monotonic(), folder / name
    home.mkdir()
    command, place = prepared(SCRIPTS[name], home)
    code = ended(command, environment(name, where, home), place, most_s)
    err = (place / "err").read_text(encoding="utf-8", errors="replace")
    tried = read((place / "out").read_text(encoding="utf-8", errors="replace"), err, code)
    bad = sum(problem is not None for problem in tried.cases.values())
    took = time.monotonic() - begun
    print(f"{name} {tried.version}: {len(tried.cases)} tried, {bad} wrong, {took:.0f} s", flush=True)
    for case, problem in tried.cases.items():
        if problem is not None:
            print(f"  {case}: {problem}", flush=True)
    if bad:
        print(err[-6000:], file=sys.stderr, flush=True)
    return tried


def environment(name: str, where: Mapping[str, str], home: Path) -> dict[str, str]:
    """A home of its own, its own commands first, and none of this environment's proxies and keys."""
    commands = VENVS / "clients" / name / "bin"
    return {
        "PATH": f"{commands}:{os.environ['PATH']}", "HOME": str(home), "NO_PROXY": "127.0.0.1",
        "PYTHONDONTWRITEBYTECODE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", **where,
    }  # fmt: skip


def prepared(script: Path, home: Path) -> tuple[list[str], Path]:
    """Its command, and where it runs: Node looks for packages beside the script."""
    venv = VENVS / "clients" / script.stem
    if script.suffix == ".py":
        return [str(venv / "bin/python"), str(script)], home
    for one in (script, FOLDER / "shown.mjs"):
        shutil.copy(one, home)
    (home / "node_modules").symlink_to(venv / "node_modules")
    return ["node", script.name], home


def ended(command: list[str], environ: Mapping[str, str], place: Path, most_s: float) -> int:
    """Its exit code, or -1 where it was ended; all that it started ends with it. `out` and `err` hold what it said."""
    with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        process = subprocess.Popen(command, env=environ, cwd=place, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True)  # fmt: skip
        try:
            return process.wait(most_s)
        except subprocess.TimeoutExpired:
            err.write(f"not within {most_s:.0f} s".encode())
            return -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def read(out: str, err: str, code: int) -> Tried:
    """What the script said. One that failed outside its cases failed in the lines to paste."""
    tried = Tried()
    for line in out.splitlines():
        said = _object(line)
        if "version" in said:
            tried.version = said["version"]
        elif "case" in said:
            tried.cases[said["case"]] = said["problem"]
    if code or not tried.cases:
        tried.cases["the lines to paste"] = " ".join(err.split())[-400:] or f"ended with {code}"
    return tried


def _object(line: str) -> dict[str, Any]:
    """The script's own lines; what its client prints is none."""
    if not line.startswith(('{"version"', '{"case"')):
        return {}
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
