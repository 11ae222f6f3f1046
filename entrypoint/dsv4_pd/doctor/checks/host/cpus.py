"""There must be enough CPUs for the servers' own threads."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation

# Per rank: a scheduler and its transfer threads; per server: HTTP, tokenizer, detokenizer; then router and guard.
_PER_RANK, _PER_SERVER, _SHARED = 2, 3, 2


def _run(s: Situation) -> Finding:
    ranks = sum(role.tensor_parallel for role in s.placement.roles) if s.placement else 8
    servers = len(s.placement.roles) if s.placement else 2
    need = ranks * _PER_RANK + servers * _PER_SERVER + _SHARED
    have = len(s.facts.allowed_cpus)
    quota = s.facts.limits.cpu_quota
    usable = min(have, quota) if quota else have
    read = f"{have} CPUs allowed" + (f", quota {quota:g}" if quota else "")
    if usable < need:
        return warn(f"{read}; about {need} are busy when serving", "widen --cpuset-cpus, or raise --cpus")
    return ok(read)


CHECK = Check(
    name="cpus",
    place=30,
    symptom="GPUs idle between steps; tokens per second fall when prompts arrive",
    why="Each rank has a busy scheduler process; with too few CPUs they take turns and all ranks wait.",
    source="SGLang 0.5.23 process tree (one scheduler per rank, HTTP, detokenizer)",
    run=_run,
)
