"""NVML's answers as JSON, in a process of its own, because a call on a card that fell off the bus can hang forever.

    python -m dsv4_pd.host.nvml [--skip INDEX,...]   everything, for `host.machine`
    python -m dsv4_pd.host.nvml --watch UUID...      one reading of these cards for each line on standard input

Each card is announced (`{"asking": ...}`) before it is asked, so that who waits in vain knows for which. Serial numbers
are never asked for. A question that one card can't answer becomes null, and a card that can't be asked at all is listed
as lost: an old card, a vGPU or a dead one does not hide the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pynvml as nv

from dsv4_pd.host import nvml_health

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
    """The answer; None where there is none: a driver older than the question, an answer that pynvml can't read.

    Raises:
        NVMLError: the card is gone, which is no unknown detail of it.
    """
    try:
        return question()
    except Exception as error:
        if isinstance(error, nv.NVMLError) and error.value == nv.NVML_ERROR_GPU_IS_LOST:
            raise
        return None


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, nv.NVMLError) else f"{type(error).__name__}: {error}"


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


def _memory(handle: Any) -> Any:
    """The second version keeps the driver's own share apart; the first counts it as used."""
    return _ask(partial(nv.nvmlDeviceGetMemoryInfo, handle, nv.nvmlMemory_v2)) or nv.nvmlDeviceGetMemoryInfo(handle)


def _gpu(index: int, handle: Any) -> dict[str, Any]:
    memory = _memory(handle)
    ecc = _ask(lambda: nv.nvmlDeviceGetEccMode(handle))
    mig = _ask(lambda: nv.nvmlDeviceGetMigMode(handle))
    return {
        "index": index,
        "uuid": nv.nvmlDeviceGetUUID(handle),
        "name": _ask(lambda: nv.nvmlDeviceGetName(handle)) or "a GPU without a name",
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
            try:
                status = _ask(partial(nv.nvmlDeviceGetP2PStatus, a, b, capability))
            except nv.NVMLError:  # lost since it was listed
                status = None
            if status != nv.NVML_P2P_STATUS_OK:
                return _P2P_WORDS.get(status, "unknown")
        return "ok"

    return [["-" if a is b else pair(a, b) for b in handles] for a in handles]


def query(skip: frozenset[int] = frozenset()) -> dict[str, Any]:
    """Everything we ask NVML; `error` and `error_code` hold its answer when it can't be asked at all.

    A card whose handle or first facts can't be had is in `lost` ({index, error}), and the others are told; `skip` are
    cards that hung when they were asked before.
    """
    try:
        nv.nvmlInit()
        count = nv.nvmlDeviceGetCount()
    except nv.NVMLError as error:
        return {"error": str(error), "error_code": error.value, "gpus": []}
    gpus, handles, lost = [], [], []
    for index in (index for index in range(count) if index not in skip):
        _tell({"asking": index})
        try:
            handle = nv.nvmlDeviceGetHandleByIndex(index)
            gpus.append(_gpu(index, handle))
            handles.append(handle)
        except Exception as error:  # also words that are no text, or an answer that pynvml does not know
            lost.append({"index": index, "error": _words(error), "error_code": getattr(error, "value", None)})
    _tell({"asking": None})
    return {
        # The only card's words are the machine's: there is nothing else to go by.
        "error": lost[0]["error"] if lost and not gpus else None,
        "error_code": lost[0]["error_code"] if lost and not gpus else None,
        "driver_version": _ask(nv.nvmlSystemGetDriverVersion),
        "cuda_version": _ask(nv.nvmlSystemGetCudaDriverVersion_v2),
        "gpus": gpus,
        "lost": lost,
        "peer_access": _peers(handles),
    }


def reading(uuids: list[str], events: nvml_health.Events | None = None) -> dict[str, Any]:
    """UUID -> {used, total, pids} in bytes and how the card is, or {error}: what the guard looks at."""
    return {uuid: _card(uuid, events) for uuid in uuids}


def _card(uuid: str, events: nvml_health.Events | None) -> dict[str, Any]:
    _tell({"asking": uuid})
    try:
        handle = nv.nvmlDeviceGetHandleByUUID(uuid)
        memory = _memory(handle)
        running = _ask(lambda: nv.nvmlDeviceGetComputeRunningProcesses(handle)) or []
        if events:
            events.watch(uuid, handle)
        health = nvml_health.figures(handle, _ask)
    except Exception as error:
        return {"error": _words(error), "error_code": getattr(error, "value", None)}
    pids = sorted(item.pid for item in running)
    return {"used": memory.used, "total": memory.total, "pids": pids, "health": health}


def watch(uuids: list[str]) -> None:
    """Answer until standard input ends. A library that can't be loaded says so for every card, and is tried again."""
    loaded, events = False, nvml_health.Events()
    for _ in sys.stdin:
        _tell({"asking": "NVML"})
        try:
            if not loaded:
                nv.nvmlInit()
                loaded = True
            _tell({"cards": reading(uuids, events), "events": events.drain()})
        except nv.NVMLError as error:
            _tell(
                {"cards": {uuid: {"error": str(error), "error_code": getattr(error, "value", None)} for uuid in uuids}}
            )


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(argv: list[str]) -> None:
    """See the module's docstring."""
    if argv[:1] == ["--watch"]:
        watch(argv[1:])
    else:
        _tell(query(frozenset(int(index) for index in argv[1].split(",")) if argv[:1] == ["--skip"] else frozenset()))


if __name__ == "__main__":
    main(sys.argv[1:])
