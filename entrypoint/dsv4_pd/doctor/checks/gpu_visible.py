"""The driver must list GPUs to this process."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.host.nvml_causes import explained, remedies
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    facts, inside = s.facts, s.facts.software.container is not None
    if facts.gpus and facts.lost_gpus:
        lost = "; ".join(f"GPU {index}: {explained(words, inside)[0]}" for index, words in facts.lost_gpus)
        read = f"{len(facts.gpus)} GPUs answer, {len(facts.lost_gpus)} do not ({lost})"
        remedy = remedies((words for _, words in facts.lost_gpus), inside)
        if s.settings.lost_gpus == "refuse" and not (s.settings.prefill_gpus and s.settings.decode_gpus):
            return fail(read, f"{remedy}; DSV4_LOST_GPUS=ignore starts on the cards that are left")
        return warn(read, remedy)
    if facts.gpus:
        return ok(f"{len(facts.gpus)} GPUs listed by driver {facts.driver_version}")
    words = facts.gpu_error or "the driver lists no GPU"
    read, remedy = explained(words, inside, 999 if facts.devices_revoked else facts.gpu_error_code)
    return fail(f"NVML: {read}", remedy)


CHECK = Check(
    name="gpu-visible",
    symptom='"no GPU visible", exit code 70',
    why="Everything but the CPU demo needs them. Restarting inside the container can't bring lost GPUs back.",
    source="NVIDIA/nvidia-container-toolkit#48 and #1227; infiniflow/ragflow#9573",
    run=_run,
    expected="NVIDIA GPUs that the driver lists",
    fatal=True,
)
