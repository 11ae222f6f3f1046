"""Nothing was compiled while serving: a kernel that is built at the first request stops everybody for seconds."""

from __future__ import annotations

from typing import Any

from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped

_NEXT = "keep the cache volume, then restart once; a shape that compiles each time is a defect to report"


def check(subject: Subject) -> Result:
    """What the servers say that they compiled, and compiled files in the cache that are younger than readiness."""
    counts = {s.labels.get("kind", ""): int(s.value) for s in subject.ops.samples() if s.name == "dsv4_compiles"}
    named = subject.status.get("compiles") or {}
    if not counts:
        return skipped("the ops port does not count compiles yet", "run it again once every role is ready")
    late = [f"{row['system']} {row['kernel']}" for row in named.get("kernels", ()) if row["since_ready"]]
    if late or any(counts.values()):
        told = ", ".join([*dict.fromkeys(late), *(f"{count} {kind}" for kind, count in counts.items())])
        return failed(f"compiled since the servers became ready: {told}", _NEXT, counts=counts, compiles=named)
    return passed(f"0 kernels compiled since the servers became ready; {_before(named)}", counts=counts, compiles=named)


def _before(named: dict[str, Any]) -> str:
    """What the start cost."""
    found = sum(row["count"] for row in named.get("from_cache", ()))
    return f"{named.get('since_start', 0)} since the start ({named.get('seconds', 0.0):.0f} s), {found} found compiled"
