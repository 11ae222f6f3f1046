"""ECC should be on."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, numbered, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    off = tuple(gpu for gpu in s.gpus if gpu.ecc is False)
    if off:
        return warn(
            f"ECC is off on {numbered(off)}",
            f"sudo nvidia-smi -i {','.join(str(g.index) for g in off)} -e 1, then reboot",
        )
    unknown = tuple(gpu for gpu in s.gpus if gpu.ecc is None)
    return ok(f"not reported by {numbered(unknown)}" if unknown else "on")


CHECK = Check(
    name="gpu-ecc",
    place=70,
    symptom="rare garbage in answers that no restart explains",
    why="Weights stay in GPU memory for weeks; without ECC a flipped bit goes unnoticed.",
    source="NVIDIA RTX PRO 6000 Blackwell product brief (ECC on by default); nvidia-smi -q of such a card",
    run=_run,
)
