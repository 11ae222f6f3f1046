"""The gate beside the engine it was written for: every target is there, and the engine puts every hook in place."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, VENVS

PROGRAM = """
import json, multiprocessing, sys
if sys.argv[2] == "scheduler":
    import sglang.srt.managers.scheduler
    multiprocessing.parent_process = object
if sys.argv[2] == "detokenizer":
    multiprocessing.parent_process = object
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry
load_plugins()
import logging
from dsv4_gate.lines import MARK
from dsv4_gate.rendezvous import TARGET
from dsv4_gate.targets import PARAMETERS, SCHEDULER
json.dump({
    "applied": sorted(HookRegistry._patched),
    "main": sorted(PARAMETERS), "scheduler": sorted([*SCHEDULER, TARGET]), "detokenizer": [TARGET],
    "one line": hasattr(logging.Handler.format, MARK),
}, open(sys.argv[1], "w"))
"""


@pytest.mark.engine
@pytest.mark.parametrize("process", ["main", "scheduler", "detokenizer"])
def test_the_engine_applies_every_hook(tmp_path: Path, process: str) -> None:
    found = tmp_path / "found.json"
    records = tmp_path / "records"
    environ = {"SGLANG_PLUGINS": "dsv4-gate", "DSV4_PLUGIN_RECORD_DIR": str(records), "HOME": str(tmp_path),
               "PYTHONPATH": str(ROOT / "gate")}  # fmt: skip
    subprocess.run([VENVS / "engine/bin/python", "-c", PROGRAM, found, process], env=environ, check=True, timeout=300)
    answer = json.loads(found.read_text())
    assert answer["applied"] == answer[process]
    assert answer["one line"], "in every process"
    (record,) = records.glob("*.json")
    assert json.loads(record.read_text())["status"] == "ok"
