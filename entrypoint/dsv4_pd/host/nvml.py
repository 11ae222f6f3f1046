"""NVML's answers as JSON: `python -m dsv4_pd.host.nvml`, run by `host.machine` in a process of its own.

Serial numbers are never asked for. A question that one card can't answer becomes null, so that an old card or a
vGPU doesn't hide the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pynvml as nv

# nvmlGpuP2PCapsIndex_t; pynvml's own name for the first is a tuple by a stray comma (13.615).
_READ_AND_WRITE = (0, 1)
_P2P_WORDS = {
    0: "ok",
    1: "chipset not supported",
    2: "GPU not supported",
    3: "topology not supported",
    4: "disabled in the driver",
    5: "not supported",
    6: "unknown",
}


def _ask(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except (nv.NVMLError, nv.NVMLLibraryMismatchError):  # the second: a driver older than the question
        return None


def _processes(handle: Any) -> list[dict[str, Any]]:
    compute = _ask(lambda: nv.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    graphics = _ask(lambda: nv.nvmlDeviceGetGraphicsRunningProcesses(handle)) or []
    found = {p.pid: p.usedGpuMemory for p in [*graphics, *compute]}
    return [{"pid": pid, "memory": memory} for pid, memory in sorted(found.items())]


def _nvlinks(handle: Any) -> int | None:
    """Active NVLink lanes; the first link that the card doesn't have ends the count."""
    active = 0
    for link in range(nv.NVML_NVLINK_MAX_LINKS):
        state = _ask(partial(nv.nvmlDeviceGetNvLinkState, handle, link))
        if state is None:
            break
        active += int(state == nv.NVML_FEATURE_ENABLED)
    return active


def _gpu(index: int, handle: Any) -> dict[str, Any]:
    # The second version keeps the driver's own share apart; the first counts it as used.
    memory = _ask(partial(nv.nvmlDeviceGetMemoryInfo, handle, nv.nvmlMemory_v2)) or nv.nvmlDeviceGetMemoryInfo(handle)
    ecc = _ask(lambda: nv.nvmlDeviceGetEccMode(handle))
    mig = _ask(lambda: nv.nvmlDeviceGetMigMode(handle))
    return {
        "index": index,
        "uuid": nv.nvmlDeviceGetUUID(handle),
        "name": nv.nvmlDeviceGetName(handle),
        "pci_bus_id": nv.nvmlDeviceGetPciInfo(handle).busId,
        "compute_capability": list(nv.nvmlDeviceGetCudaComputeCapability(handle)),
        "memory_total": memory.total,
        "memory_used": memory.used,
        "mig": None if mig is None else bool(mig[0]),
        "ecc": None if ecc is None else bool(ecc[0]),
        "persistence": _ask(lambda: bool(nv.nvmlDeviceGetPersistenceMode(handle))),
        "display": _ask(lambda: bool(nv.nvmlDeviceGetDisplayActive(handle))),
        "pcie_generation": _ask(lambda: nv.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        "pcie_width": _ask(lambda: nv.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "pcie_max_generation": _ask(lambda: nv.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        "pcie_card_generation": _ask(lambda: nv.nvmlDeviceGetGpuMaxPcieLinkGeneration(handle)),
        "pcie_max_width": _ask(lambda: nv.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "nvlinks": _nvlinks(handle),
        "processes": _processes(handle),
    }


def _peers(handles: list[Any]) -> list[list[str]]:
    """Peer reads and writes between each pair: "ok", the first reason against it, or "-" for a card itself."""

    def pair(a: Any, b: Any) -> str:
        for capability in _READ_AND_WRITE:
            status = _ask(partial(nv.nvmlDeviceGetP2PStatus, a, b, capability))
            if status != nv.NVML_P2P_STATUS_OK:
                return _P2P_WORDS.get(status, "unknown")
        return "ok"

    return [["-" if a is b else pair(a, b) for b in handles] for a in handles]


def query() -> dict[str, Any]:
    """Everything we ask NVML; `error` and `error_code` hold its answer when it can't be asked at all."""
    try:
        nv.nvmlInit()
        handles = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(nv.nvmlDeviceGetCount())]
        return {
            "error": None,
            "driver_version": _ask(nv.nvmlSystemGetDriverVersion),
            "cuda_version": _ask(nv.nvmlSystemGetCudaDriverVersion_v2),
            "gpus": [_gpu(index, handle) for index, handle in enumerate(handles)],
            "peer_access": _peers(handles),
        }
    except nv.NVMLError as error:
        return {"error": str(error), "error_code": error.value, "gpus": []}


if __name__ == "__main__":
    json.dump(query(), sys.stdout)
