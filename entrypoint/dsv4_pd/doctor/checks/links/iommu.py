"""The IOMMU should not translate between peers."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    mode = s.facts.iommu
    if mode == "translated" and not s.facts.virtual_machine:
        return warn(
            "translation is on",
            "add iommu=pt to the kernel command line: sudoedit /etc/default/grub, sudo update-grub, reboot",
        )
    return ok(mode or "not visible from here")


CHECK = Check(
    name="iommu",
    place=30,
    symptom="the first all-reduce hangs (100 % utilisation at low power), or answers turn to garbage",
    why="On these cards peer copies behind a translating IOMMU hang, or return wrong data with success codes.",
    source="local-inference-lab/rtx6kpro#15; NVIDIA/open-gpu-kernel-modules#1257; vllm#33041",
    run=_run,
)
