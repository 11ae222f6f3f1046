"""Persistence mode keeps the driver loaded between programs."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, numbered, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    off = tuple(gpu for gpu in s.gpus if gpu.persistence is False)
    if off:
        return warn(f"off on {numbered(off)}", "on the host: sudo systemctl enable --now nvidia-persistenced")
    return ok("on" if s.gpus else "no GPU")


CHECK = Check(
    name="gpu-persistence",
    place=80,
    symptom="the first CUDA call of each start takes many seconds; clocks and limits are forgotten",
    why="Without it the driver is reinitialised whenever the last program leaves the card.",
    source="NVIDIA driver persistence guide",
    run=_run,
)
