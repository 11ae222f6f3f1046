"""Options of the pinned programs' own parsers: python -m support.parsers writes config/parsers.json."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from conftest import ROOT, VENVS

LIST = ROOT / "tests/entrypoint/engine/list_flags.py"
MODULES = {"engine": "engine", "sglang-router": "sglang_router", "smg": "smg"}
FOLDERS = {"engine": "engine", "sglang-router": "router", "smg": "smg"}


def read(environment: Path, program: str, what: str = "values") -> dict[str, Any]:
    """option -> how many values it takes, or (`kinds`) what they must be."""
    command = [str(environment / "bin/python"), str(LIST), MODULES[program], what]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


_KINDS = {"Int": "int", "Float": "float", "Bool": "bool"}


def engine_variables(environment: Path) -> list[str]:
    """The variables that the engine declares, or reads past its own list, read as text: importing it takes a minute."""
    (folder,) = environment.glob("lib/python3.*/site-packages/sglang")
    found = set(re.findall(r"^    ((?:SGLANG|SGL)_[A-Z0-9_]+) *=", _declarations(folder), re.MULTILINE))
    for path in folder.rglob("*.py"):
        found |= set(re.findall(r"[\"']((?:SGLANG|SGL)_[A-Z0-9_]+)[\"']", path.read_text(encoding="utf-8")))
    return sorted(found)


def engine_variable_kinds(environment: Path) -> dict[str, str]:
    """variable -> int, float or bool, where the engine declares it as one."""
    (folder,) = environment.glob("lib/python3.*/site-packages/sglang")
    rows = re.findall(r"^    ((?:SGLANG|SGL)_\w+) *= *Env(Int|Float|Bool)\w*\(", _declarations(folder), re.MULTILINE)
    return {name: _KINDS[kind] for name, kind in sorted(rows)}


def _declarations(folder: Path) -> str:
    return (folder / "srt/environ.py").read_text(encoding="utf-8")


def main() -> None:
    found: dict[str, Any] = {program: read(VENVS / folder, program) for program, folder in FOLDERS.items()}
    found["kinds"] = {program: read(VENVS / folder, program, "kinds") for program, folder in FOLDERS.items()}
    found["engine_variables"] = engine_variables(VENVS / "engine")
    found["engine_variable_kinds"] = engine_variable_kinds(VENVS / "engine")
    (ROOT / "config/parsers.json").write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
