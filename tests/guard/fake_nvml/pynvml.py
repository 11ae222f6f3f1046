"""NVML for a machine without a driver: answers from the JSON file that stands beside this one in a test's folder."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

STATE = Path(__file__).with_name("nvml.json")


def _now() -> dict:
    return json.loads(STATE.read_text())


def nvmlInit() -> None:  # noqa: N802
    pass


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:  # noqa: N802
    if _now().get("error"):
        raise RuntimeError(_now()["error"])
    return uuid


def nvmlDeviceGetMemoryInfo(handle: str) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(used=_now()["used"], total=97_887 * 2**20)


def nvmlDeviceGetComputeRunningProcesses(handle: str) -> list[SimpleNamespace]:  # noqa: N802
    return [SimpleNamespace(pid=pid) for pid in _now().get("pids", [])]
