"""PCIe access control should not send peer traffic up to the root."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    above = {bridge for gpu in s.gpus for bridge in gpu.bridges}
    bridges = [bridge for bridge in s.facts.bridges if bridge.address in above]
    on = [bridge.address for bridge in bridges if bridge.acs_request_redirect]
    if on:
        return warn(
            f"request redirect is on at {', '.join(on)}",
            "on the host, at each boot: for b in " + " ".join(on) + "; do sudo setpci -s $b ECAP_ACS+6.w=0000; done",
        )
    if bridges and all(bridge.acs_request_redirect is None for bridge in bridges):
        return ok("not readable from here (needs root on the host: sudo lspci -vvv | grep ACSCtl)")
    return ok("request redirect is off" if bridges else "no bridges visible")


CHECK = Check(
    name="acs",
    place=40,
    symptom="peer bandwidth halves behind a switch; hangs together with a translating IOMMU",
    why="With request redirect a switch sends peer traffic up to the CPU instead of straight across.",
    source="local-inference-lab/rtx6kpro hardware/asus-esc8000a-e13p-broadcom-switches.md; NVIDIA/nccl#2079",
    run=_run,
)
