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


def engine_variables(environment: Path) -> list[str]:
    """The variables that the engine declares, read as text: importing it takes a minute."""
    (path,) = environment.glob("lib/python3.*/site-packages/sglang/srt/environ.py")
    return sorted(set(re.findall(r"^    ((?:SGLANG|SGL)_[A-Z0-9_]+) *=", path.read_text(), re.MULTILINE)))


def main() -> None:
    found: dict[str, Any] = {program: read(VENVS / folder, program) for program, folder in FOLDERS.items()}
    found["kinds"] = {program: read(VENVS / folder, program, "kinds") for program, folder in FOLDERS.items()}
    found["engine_variables"] = engine_variables(VENVS / "engine")
    (ROOT / "config/parsers.json").write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
