"""The Linux kernel should be one that the driver supports well."""

from __future__ import annotations

import re

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation

# Blackwell workstation cards run on the open kernel modules; distributions ship them tested from 5.15 (Ubuntu 22.04).
_OLDEST = (5, 15)


def _run(s: Situation) -> Finding:
    kernel = s.facts.software.kernel
    match = re.match(r"(\d+)\.(\d+)", kernel or "")
    if not match:
        return ok("not readable")
    if (int(match[1]), int(match[2])) < _OLDEST:
        return warn(str(kernel), "update the host's kernel: sudo apt install linux-image-amd64, then reboot")
    return ok(str(kernel))


CHECK = Check(
    name="kernel-version",
    place=20,
    symptom="the driver's module doesn't build, or cards fall off the bus under load",
    why="These cards need the open kernel modules of a recent driver, which old kernels don't support well.",
    source="NVIDIA driver README (supported kernels, open modules for Blackwell)",
    run=_run,
)
