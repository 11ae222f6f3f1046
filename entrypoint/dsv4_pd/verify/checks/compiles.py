"""Nothing was compiled while serving: a kernel that is built at the first request stops everybody for seconds."""

from __future__ import annotations

from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped


def check(subject: Subject) -> Result:
    """Compiled files in the cache that are younger than readiness."""
    counts = {s.labels.get("kind", ""): int(s.value) for s in subject.ops.samples() if s.name == "dsv4_compiles"}
    if not counts:
        return skipped("the ops port does not count compiles yet", "run it again once every role is ready")
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    if any(counts.values()):
        return failed(
            f"compiled since the servers became ready: {told}",
            "keep the cache volume, then restart once; a shape that compiles each time is a defect to report",
            counts=counts,
        )
    return passed("0 kernels compiled since the servers became ready", counts=counts)
