"""UCX and CUDA pin memory."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, gib, ok, warn
from dsv4_pd.plan.situation import Situation

_WISH = 8 << 30


def _run(s: Situation) -> Finding:
    limits = s.facts.limits
    if limits.memlock_bytes == -1:
        return ok("unlimited")
    if limits.memlock_bytes is None:
        return ok("not readable")
    if limits.memlock_bytes < _WISH:
        return warn(f"{limits.memlock_bytes >> 10} KiB", "start the container with --ulimit memlock=-1:-1")
    return ok(gib(limits.memlock_bytes))


CHECK = Check(
    name="locked-memory",
    place=70,
    symptom="UCX warns about registration, or host-side KV transfers are slow",
    why="Transfers from host memory need pinned pages; the limit says how many a process may pin.",
    source="NCCL and UCX documentation (memlock); peers' compose files set it to unlimited",
    run=_run,
)
