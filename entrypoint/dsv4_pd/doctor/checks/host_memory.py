"""Host memory, and the container's share of it, must be enough to load the servers."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, gib, ok, warn
from dsv4_pd.plan.situation import Situation

GIB = 1 << 30
# Per rank about 6 GiB of process memory (CUDA, NCCL, torch, pinned buffers); shards are read through the page cache,
# which a cgroup counts but may drop.
_PER_RANK, _BASE, _CACHE = 6 * GIB, 8 * GIB, 64 * GIB


def _run(s: Situation) -> Finding:
    ranks = sum(role.tensor_parallel for role in s.placement.roles) if s.placement else 8
    need = ranks * _PER_RANK + _BASE
    limit, total = s.facts.limits.memory_limit_bytes, s.facts.memory_bytes
    have = min(filter(None, (limit, total)), default=0)
    read = f"{gib(total or 0)} in the machine" + (f", limit {gib(limit)}" if limit else ", no limit")
    if have < need:
        return fail(f"{read}; about {gib(need)} are needed", "raise the container's --memory, or add memory")
    if have < need + _CACHE:
        return warn(
            f"{read}; {gib(need)} needed, little left to cache the shards",
            "raise the container's --memory: loading is then bound by the disk",
        )
    return ok(read)


CHECK = Check(
    name="host-memory",
    symptom='"scheduler died during initialization (exit code: -9)": the kernel\'s OOM killer',
    why="The kernel kills a rank without any message when the cgroup's limit is reached during the load.",
    source="SGLang 0.5.23 engine.py (exit code -9 hint); docker run --memory reference",
    run=_run,
    expected="enough memory to load the servers",
    fatal=True,
)
