"""A plan's command line through the engine's own resolution, in the engine's environment; no engine is started."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from conftest import ROOT, VENVS
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.resolve import ask
from dsv4_pd.run import files

SCRIPTS = ROOT / "tests" / "entrypoint" / "engine"


def resolve(plan: Plan, role: str) -> Mapping[str, Any]:
    """Every argument of a role's server as the engine resolves it, asked as `plan --resolve` asks."""
    here = replace(plan, settings=plan.settings.model_copy(update={"engine_python": VENVS / "engine/bin/python"}))
    answer = ask._server(here, next(program for program in plan.programs if program.name == role))
    assert answer.error is None, answer.error
    return answer.values


def pool_sizes(plan: Plan, role: str, budgets: tuple[int, ...], drop: str = "") -> dict[str, Any]:
    """What the engine's own class makes of the budgets; `drop`: a flag to leave out."""
    folders.make(plan.paths)
    files.write(plan.files)
    program = next(program for program in plan.programs if program.name == role)
    (config,) = (file for file in program.files if file.path.suffix == ".yaml")
    flags = yaml.safe_load(config.text)
    flags.pop(drop, None)
    config.path.write_text(yaml.safe_dump(flags), encoding="utf-8")
    arguments = (",".join(map(str, budgets)), *program.argv[program.argv.index("--") + 1 :])
    env = {"PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "HOME": str(plan.paths.run), **dict(program.env)}
    env.pop("SGLANG_PLUGINS", None)
    command = [str(VENVS / "engine/bin/python"), str(SCRIPTS / "pool_sizes.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    data: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1].removeprefix("RESULT"))
    return data


def write(plan: Plan) -> None:
    """The files that the command line reads."""
    Path(plan.paths.run).mkdir(parents=True, exist_ok=True)
    folders.make(plan.paths)
    files.write(plan.files)
