"""The clock must be about right."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation

_LIMIT_S = 300.0


def _run(s: Situation) -> Finding:
    skew = s.facts.clock_skew_s
    if skew is None:
        return ok("no hardware clock to compare with")
    # A hardware clock kept in local time differs by whole quarters of an hour.
    off = abs(skew - round(skew / 900) * 900) if abs(skew) <= 15 * 3600 else abs(skew)
    if off > _LIMIT_S:
        return warn(f"{skew:+.0f} s against the hardware clock", "on the host: sudo timedatectl set-ntp true")
    return ok(f"{skew:+.0f} s against the hardware clock")


CHECK = Check(
    name="clock",
    place=10,
    symptom="TLS errors when the model is downloaded; logs that don't line up",
    why="Certificates are refused by a clock that is days off.",
    source="systemd timedatectl(1)",
    run=_run,
    gpu_only=False,
)
