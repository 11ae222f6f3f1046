"""How a card is, in NVML's own figures, and the errors that the driver reported since the last look.

Part of the process that `host.nvml` is. What a card, a driver or a virtual GPU can't answer is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml as nv

Ask = Callable[[Callable[[], Any]], Any]
_MOST_EVENTS = 64  # in one look: a card that fails without end must not hold the reader


def figures(handle: Any, ask: Ask) -> dict[str, Any]:
    """Watts, degrees Celsius, shares from 0 to 1, bytes a second, counts; each only where NVML gives it."""
    load = ask(lambda: nv.nvmlDeviceGetUtilizationRates(handle))
    rows = ask(lambda: nv.nvmlDeviceGetRemappedRows(handle))  # corrected, uncorrected, pending, failed
    found = {
        "power_w": _scaled(ask(lambda: nv.nvmlDeviceGetPowerUsage(handle)), 1e-3),
        "power_limit_w": _scaled(ask(lambda: nv.nvmlDeviceGetEnforcedPowerLimit(handle)), 1e-3),
        "temperature_c": ask(lambda: nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU)),
        "utilization": _scaled(getattr(load, "gpu", None), 1e-2),
        "memory_utilization": _scaled(getattr(load, "memory", None), 1e-2),
        # NVML counts PCIe traffic over 20 ms, in KB/s.
        "pcie_tx_bytes_per_s": _scaled(
            ask(lambda: nv.nvmlDeviceGetPcieThroughput(handle, nv.NVML_PCIE_UTIL_TX_BYTES)), 1e3
        ),
        "pcie_rx_bytes_per_s": _scaled(
            ask(lambda: nv.nvmlDeviceGetPcieThroughput(handle, nv.NVML_PCIE_UTIL_RX_BYTES)), 1e3
        ),
        "ecc_uncorrected": ask(
            lambda: nv.nvmlDeviceGetTotalEccErrors(handle, nv.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nv.NVML_VOLATILE_ECC)
        ),
        "rows_pending": None if rows is None else int(bool(rows[2])),
        "rows_failed": None if rows is None else int(bool(rows[3])),
    }
    return {name: value for name, value in found.items() if value is not None}


def _scaled(value: Any, factor: float) -> float | None:
    return None if value is None else round(float(value) * factor, 6)


class Events:
    """Xid errors of the cards that are watched; without an event set nothing is ever reported."""

    def __init__(self) -> None:
        self._set: Any = None
        self._known: set[str] = set()

    def watch(self, uuid: str, handle: Any) -> None:
        """Ask to be told of a card's errors from now on; once."""
        if uuid in self._known:
            return
        self._known.add(uuid)
        try:
            self._set = self._set or nv.nvmlEventSetCreate()
            wanted = nv.nvmlEventTypeXidCriticalError
            if nv.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
                nv.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        except Exception:  # an old driver, a virtual GPU, no right to it: NVML's other answers still stand
            return

    def drain(self) -> list[dict[str, Any]]:
        """[{uuid, xid}] since the last look; does not wait."""
        found: list[dict[str, Any]] = []
        while self._set is not None and len(found) < _MOST_EVENTS:
            try:
                event = nv.nvmlEventSetWait_v2(self._set, 0)
                uuid = nv.nvmlDeviceGetUUID(event.device)
            except Exception:  # most often the time-out that says there is none
                break
            if event.eventType & nv.nvmlEventTypeXidCriticalError:
                found.append({"uuid": uuid, "xid": int(event.eventData)})
        return found
