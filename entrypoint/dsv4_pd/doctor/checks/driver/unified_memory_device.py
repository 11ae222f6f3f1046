"""CUDA needs /dev/nvidia-uvm, which NVML does not."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    devices = s.facts.software.nvidia_devices
    if "nvidia-uvm" in devices or not devices:
        return ok("/dev/nvidia-uvm is there" if devices else "no NVIDIA device files")
    return fail(
        f"/dev has {', '.join(devices)}, but no nvidia-uvm",
        "on the host: sudo modprobe nvidia-uvm && sudo nvidia-modprobe -c0 -u, then re-create the container",
    )


CHECK = Check(
    name="unified-memory-device",
    place=60,
    symptom='nvidia-smi works, but CUDA says "unknown error" (999) or finds no device',
    why="The device file appears with the first CUDA program after boot; a container that starts earlier lacks it.",
    source="NVIDIA/nvidia-docker#526 (device files late at boot)",
    run=_run,
    expected="/dev/nvidia-uvm",
    fatal=True,
)
