"""No enabled service of an older deployment may take the cards or the ports."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if not s.facts.units:
        return ok("none enabled")
    ours = {getattr(s.settings, name): name for name in type(s.settings).model_fields if name.endswith("port")}
    for unit in s.facts.units:
        clash = [port for port in unit.ports if port in ours]
        if clash:
            names = ", ".join(f"{port} (DSV4_{ours[port].upper()})" for port in clash)
            return fail(f"{unit.name} is enabled and uses port {names}", f"sudo systemctl disable --now {unit.name}")
    names = ", ".join(unit.name for unit in s.facts.units)
    return warn(f"enabled: {names}", f"sudo systemctl disable --now {s.facts.units[0].name}")


CHECK = Check(
    name="older-deployment",
    place=50,
    symptom="after a reboot the ports or the cards are taken",
    why="A unit that is still enabled starts before the container and takes GPUs and ports.",
    source="the deployment that this product replaces ran as three systemd units",
    run=_run,
    gpu_only=False,
)
