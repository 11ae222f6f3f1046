"""Entry point `dsv4-ring` of SGLang's plugin group, for tests on a GPU alone: the product never names it.

Variables choose: `RING_SM120=1` takes sm_120's code path on another card; `RING_FAULT=scale|page` plants a fault in the
kernel that is measured, which the measurement must notice; `RING_LOADS=FILE` notes each first use of a kernel.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from dsv4_ring import faults, sm120, watch


def register() -> None:
    patches = {}
    if os.environ.get("RING_SM120") == "1":
        sm120.take_path()
        patches["is_sm120"] = "active"
    if fault := os.environ.get("RING_FAULT", ""):
        faults.plant(fault)
        patches[f"fault_{fault}"] = "active"
    if loads := os.environ.get("RING_LOADS", ""):
        patches |= {f"watch_{name}": "active" for name in watch.start(loads)}
    record(patches)


def record(patches: dict[str, str]) -> None:
    """What the guard expects of each plugin that SGLANG_PLUGINS names."""
    folder = os.environ.get("DSV4_PLUGIN_RECORD_DIR")
    if not folder:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    text = {"plugin": "dsv4-ring", "pid": os.getpid(), "status": "ok", "reason": "", "required": [], "patches": patches}
    (Path(folder) / f"dsv4-ring.{os.getpid()}.json").write_text(json.dumps(text))
