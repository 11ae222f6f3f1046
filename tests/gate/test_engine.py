"""The gate beside the engine it was written for: every target is there, and the engine puts every hook in place."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import VENVS

PROGRAM = """
import json, sys
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry
load_plugins()
from dsv4_gate.targets import PARAMETERS
json.dump({"applied": sorted(HookRegistry._patched), "targets": sorted(PARAMETERS)}, open(sys.argv[1], "w"))
"""


@pytest.mark.engine
def test_the_engine_applies_every_hook(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    records = tmp_path / "records"
    environ = {"SGLANG_PLUGINS": "dsv4-gate", "DSV4_PLUGIN_RECORD_DIR": str(records), "HOME": str(tmp_path)}
    subprocess.run([VENVS / "engine/bin/python", "-c", PROGRAM, found], env=environ, check=True, timeout=300)
    answer = json.loads(found.read_text())
    assert answer["applied"] == answer["targets"]
    (record,) = records.glob("*.json")
    assert json.loads(record.read_text())["status"] == "ok"
