"""Each card needs the profile's memory, free."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, gib, ok
from dsv4_pd.plan.placement.gpu_choice import minimum_gb
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if not s.gpus:
        return fail("no GPU", "see gpu-visible")
    smallest = min(s.gpus, key=lambda gpu: gpu.memory_bytes)
    need = minimum_gb(s.settings, s.profile.gpus) if s.profile and s.profile.gpus else 94.0
    if smallest.memory_bytes < need * 1e9:
        return fail(
            f"GPU {smallest.index} has {smallest.memory_bytes / 1e9:.1f} GB, {need:g} needed",
            "leave the card out (DSV4_PREFILL_GPUS, DSV4_DECODE_GPUS)",
        )
    return ok(f"{gib(smallest.memory_bytes)} or more on {len(s.gpus)} GPUs")


CHECK = Check(
    name="gpu-memory",
    place=30,
    symptom='"CUDA out of memory" or "Loaded weights leave no GPU memory for the KV cache" after minutes',
    why="A quarter of the weights takes about 38 GiB of each card before a single token is cached.",
    source="the memory model (`dsv4-pd plan`); sglang#35777 (restart loop on OOM)",
    run=_run,
    expected="the profile's memory on each card",
    fatal=True,
)
