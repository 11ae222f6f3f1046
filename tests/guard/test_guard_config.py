"""The guard's configuration, and what it starts with."""

from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from dsv4_pd.plan.guard.config import from_json
from guard.appliance import Appliance


def test_the_configuration_survives_its_file(tmp_path: Path) -> None:
    config = replace(Appliance(tmp_path).config, api_key='k"€\n', plugins=("a",))
    assert from_json(config.to_json()) == config
    assert 'k"' not in repr(config)


def test_the_guard_stays_light() -> None:
    heavy = "'pydantic', 'click', 'rich', 'yaml'"
    look = f"import sys, dsv4_pd.run.guard.run; print([m for m in ({heavy}) if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_guard_json_is_private(tmp_path: Path) -> None:
    """`files.write` gives it mode 0600, because it may hold the API key."""
    from dsv4_pd.plan.programs.program import ConfigFile
    from dsv4_pd.run.files import write

    write((ConfigFile(tmp_path / "guard.json", "{}"),))
    assert stat.S_IMODE((tmp_path / "guard.json").stat().st_mode) == 0o600
