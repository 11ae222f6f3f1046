"""The driver must list GPUs to this process."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.host import lost_cards
from dsv4_pd.host.facts import HostFacts, UnlistedGpu
from dsv4_pd.host.nvml_causes import explained
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    facts, inside = s.facts, s.facts.software.container is not None
    if facts.gpus and facts.lost_gpus:
        said, remedy = lost_cards.told(facts.lost_gpus, inside)
        read = f"{len(facts.gpus)} GPUs answer, {len(facts.lost_gpus)} do not ({said})"
        if s.settings.lost_gpus == "refuse" and not (s.settings.prefill_gpus and s.settings.decode_gpus):
            return fail(read, f"{remedy}; DSV4_LOST_GPUS=ignore starts on the cards that are left")
        return warn(read, remedy)
    if unlisted := _unlisted(facts):
        shown = ", ".join(f"{card.address} ({card.driver or 'no driver'})" for card in unlisted)
        listed = len(facts.gpus)
        read = f"the PCI bus shows {listed + len(unlisted)} NVIDIA cards, the driver lists {listed}; not {shown}"
        return warn(read, explained("the driver lists no GPU", False)[1])
    if facts.gpus:
        return ok(f"{len(facts.gpus)} GPUs listed by driver {facts.driver_version}")
    words = facts.gpu_error or "the driver lists no GPU"
    read, remedy = explained(words, inside, 999 if facts.devices_revoked else facts.gpu_error_code)
    return fail(f"NVML: {read}", remedy)


def _unlisted(facts: HostFacts) -> list[UnlistedGpu]:
    """Cards that the driver should list and does not. One that another driver has is meant for something else; a
    container may have been given only some; and a lost card is among them, but the driver no longer tells which.
    """
    inside = facts.software.container is not None
    found = [card for card in facts.unlisted_gpus if card.driver is None or (card.driver == "nvidia" and not inside)]
    return found if facts.gpus and len(facts.unlisted_gpus) > len(facts.lost_gpus) else []


CHECK = Check(
    name="gpu-visible",
    place=10,
    symptom='"no GPU visible", exit code 70',
    why="Everything but the CPU demo needs them. Restarting inside the container can't bring lost GPUs back.",
    source="NVIDIA/nvidia-container-toolkit#48 and #1227; infiniflow/ragflow#9573",
    run=_run,
    expected="NVIDIA GPUs that the driver lists",
    fatal=True,
)
