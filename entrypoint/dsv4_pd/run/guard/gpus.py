"""GPUs while the appliance runs: are they still there, and who holds their memory. NVML, loaded on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FREE_BYTES = 2 * 1024**3  # what a driver, a display or a monitoring tool may hold


class Gpus:
    """NVML for the GPUs of the plan; does nothing where there are none."""

    def __init__(self, uuids: Sequence[str], nvml: Any = None) -> None:
        self._uuids = tuple(uuids)
        self._nvml = nvml

    def lost(self) -> str | None:
        """Why a GPU can't be used any more, in NVML's words; None while all are well.

        After `systemctl daemon-reload` on the host NVML says "Unknown Error": only a new container helps.
        """
        for uuid in self._uuids:
            try:
                self._library().nvmlDeviceGetMemoryInfo(self._handle(uuid))
            except Exception as error:  # every NVML error means the same here
                return f"GPU {uuid} is lost (NVML: {error}); recreate the container, see the driver's log on the host"
        return None

    def holder(self, uuids: Sequence[str]) -> str | None:
        """Who holds memory on GPUs whose server is down; None when they are free."""
        for uuid in uuids:
            try:
                handle = self._handle(uuid)
                used = self._library().nvmlDeviceGetMemoryInfo(handle).used
                if used > FREE_BYTES:
                    names = [str(item.pid) for item in self._library().nvmlDeviceGetComputeRunningProcesses(handle)]
                    who = f"process {', '.join(names)}" if names else "a process outside this container"
                    return f"GPU {uuid}: {used / 1e9:.1f} GB still held by {who}; end it, or choose other GPUs"
            except Exception:  # a lost GPU is `lost`'s to report
                return None
        return None

    def memory(self, uuids: Sequence[str]) -> list[dict[str, float | str]]:
        """Used and total GB of each GPU, for the status."""
        return [self._memory_of(uuid) for uuid in uuids if self.lost() is None]

    def _memory_of(self, uuid: str) -> dict[str, float | str]:
        info = self._library().nvmlDeviceGetMemoryInfo(self._handle(uuid))
        return {"uuid": uuid, "used_gb": round(info.used / 1e9, 1), "total_gb": round(info.total / 1e9, 1)}

    def _library(self) -> Any:
        if self._nvml is None:
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
        return self._nvml

    def _handle(self, uuid: str) -> Any:
        return self._library().nvmlDeviceGetHandleByUUID(uuid)
