"""Host information must be readable; what is not counts as unknown and hides nothing else."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if s.facts.unread:
        return warn(
            f"not understood: {'; '.join(s.facts.unread)}",
            "taken as unknown; please report it, with `dsv4-pd doctor --capture DIR`",
        )
    return ok("all read")


CHECK = Check(
    name="host-files",
    place=40,
    symptom='"unknown" or "not bound" although the host shows otherwise',
    why="A file of /proc or /sys, or an answer of the driver, had an unexpected form.",
    source="entrypoint/dsv4_pd/host/read.py (each reader on its own)",
    run=_run,
    gpu_only=False,
)
