"""NVML for a machine without a driver: answers from the JSON file that stands beside this one in a test's folder.

xids: [[uuid, number], ...], told once each time that this list changes;
used, pids: of every card; error: every call fails with these words; errors: {uuid: words} of one card; hang: [uuid].
rows_failed: [uuid], of which NVML says that a memory row has no spare.
The real pynvml against a stub of the driver's library is in tests/entrypoint/test_host_nvml.py.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

STATE = Path(__file__).with_name("nvml.json")
CALLS = STATE.with_name("calls")
nvmlMemory_v2 = 0x2000028  # noqa: N816


class NVMLError(Exception):
    pass


class NVMLLibraryMismatchError(Exception):
    pass


def _now() -> dict[str, Any]:
    now: dict[str, Any] = json.loads(STATE.read_text())
    return now


def nvmlInit() -> None:  # noqa: N802
    pass


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:  # noqa: N802
    now = _now()
    with CALLS.open("a") as file:
        file.write(f"{uuid}\n")
    while uuid in _now().get("hang", []):
        time.sleep(0.1)
    if words := now.get("errors", {}).get(uuid) or now.get("error"):
        raise NVMLError(words)
    return uuid


def nvmlDeviceGetMemoryInfo(handle: str, version: int = 0) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(used=_now()["used"], total=97_887 * 2**20)


def nvmlDeviceGetComputeRunningProcesses(handle: str) -> list[SimpleNamespace]:  # noqa: N802
    return [SimpleNamespace(pid=pid) for pid in _now().get("pids", [])]


def nvmlDeviceGetRemappedRows(handle: str) -> tuple[int, int, int, int]:  # noqa: N802
    """Corrected, uncorrected, pending, failed, as NVML counts and says them."""
    return 0, 1, 0, int(handle in _now().get("rows_failed", []))


nvmlEventTypeXidCriticalError = 8  # noqa: N816
_told: list[list[Any]] = []
_waiting: list[list[Any]] = []


def nvmlEventSetCreate() -> object:  # noqa: N802
    return object()


def nvmlDeviceGetSupportedEventTypes(handle: str) -> int:  # noqa: N802
    return nvmlEventTypeXidCriticalError


def nvmlDeviceRegisterEvents(handle: str, types: int, events: object) -> None:  # noqa: N802
    pass


def nvmlDeviceGetUUID(handle: str) -> str:  # noqa: N802
    return handle


def nvmlEventSetWait_v2(events: object, timeout: int) -> SimpleNamespace:  # noqa: N802
    global _told  # noqa: PLW0603
    now = _now().get("xids", [])
    if now != _told:
        _told = now
        _waiting.extend(now)
    if not _waiting:
        raise NVMLError("Timeout")
    uuid, number = _waiting.pop(0)
    return SimpleNamespace(device=uuid, eventType=nvmlEventTypeXidCriticalError, eventData=number)
