"""The driver must serve the CUDA that the image carries."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, skip
from dsv4_pd.plan.situation import Situation

# CUDA 13.0 needs an R580 driver; with an older one every CUDA call fails (CUDA toolkit release notes, table 3).
CUDA = (13, 0)
DRIVER = 580


def _run(s: Situation) -> Finding:
    driver, cuda = s.facts.driver_version, s.facts.cuda_version
    read = f"driver {driver or 'unknown'}, serves CUDA {'.'.join(map(str, cuda)) if cuda else 'unknown'}"
    if driver is None and s.facts.gpu_error:
        return skip("NVML does not answer, see gpu-visible")
    if driver is None:
        return fail(read, "install the NVIDIA driver on the host: sudo apt install nvidia-open, then reboot")
    major = int(driver.split(".")[0]) if driver.split(".")[0].isdecimal() else 0
    if major < DRIVER or (cuda is not None and cuda < CUDA):
        return fail(
            f"{read}; {DRIVER} or newer is needed for CUDA {CUDA[0]}.{CUDA[1]}",
            "update the driver on the host: sudo apt install nvidia-open-580, then reboot",
        )
    return ok(read)


CHECK = Check(
    name="driver-version",
    place=30,
    symptom='"CUDA driver version is insufficient", or error 803/804, when the servers load',
    why="The image carries CUDA 13.0; an older driver refuses it only after minutes of loading.",
    source="CUDA toolkit release notes (minimum driver versions); NVIDIA/nvidia-container-toolkit#152",
    run=_run,
    expected="a driver that serves CUDA 13.0 (580 or newer)",
    fatal=True,
)
