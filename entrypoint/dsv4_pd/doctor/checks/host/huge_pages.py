"""Reserved huge pages are memory that nothing else can use."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, gib, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    pages = s.facts.limits.hugepages
    if pages is None:
        return ok("not readable")
    reserved = pages * (2 << 20)
    if s.facts.memory_bytes and reserved > s.facts.memory_bytes // 4:
        return warn(f"{pages} reserved ({gib(reserved)})", "on the host: sudo sysctl vm.nr_hugepages=0")
    return ok(f"{pages} reserved")


CHECK = Check(
    name="huge-pages",
    place=90,
    symptom="the machine swaps or kills processes although memory looks ample",
    why="The engine doesn't use reserved huge pages, and the kernel won't give them to anything else.",
    source="Linux kernel Documentation/admin-guide/mm/hugetlbpage.rst",
    run=_run,
)
