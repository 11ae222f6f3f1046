"""MIG must be off on the cards in use."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, numbered, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    on = tuple(gpu for gpu in s.facts.gpus if gpu.mig)
    if not on:
        return ok("off")
    command = f"sudo nvidia-smi -i {','.join(str(gpu.index) for gpu in on)} -mig 0"
    if any(gpu in s.gpus for gpu in on):
        return fail(f"on for {numbered(on)}", command)
    return warn(f"on for {numbered(on)}, so those cards are left aside", command)


CHECK = Check(
    name="gpu-mig",
    place=50,
    symptom="fewer GPUs than the box has, or a crash on a MIG- UUID",
    why="A MIG slice has neither the memory nor the peer access that a tensor-parallel rank needs.",
    source="vllm#41848, vllm PR#46132",
    run=_run,
    expected="MIG off on the cards in use",
    fatal=True,
)
