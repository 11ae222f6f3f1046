"""Host memory, and the container's share of it, must be enough to load the servers."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, gib, ok, warn
from dsv4_pd.plan.memory import offload
from dsv4_pd.plan.situation import Situation

GIB = 1 << 30
# Per rank about 6 GiB of process memory (CUDA, NCCL, torch, pinned buffers); shards are read through the page cache,
# which a cgroup counts but may drop. All servers load at once: the second reader of a shard finds it there, if the
# cache holds what lies between the two; otherwise each reads the disk for itself, and both wait for it.
_PER_RANK, _BASE, _CACHE = 6 * GIB, 8 * GIB, 64 * GIB


def _run(s: Situation) -> Finding:
    ranks = sum(role.tensor_parallel for role in s.placement.roles) if s.placement else 8
    kept = offload.host_bytes(s.settings, s.placement) if s.placement else 0.0
    need = ranks * _PER_RANK + _BASE + (kept + offload.ENGINE_RESERVE if kept else 0)
    limit, total = s.facts.limits.memory_limit_bytes, s.facts.memory_bytes
    have = min(filter(None, (limit, total)), default=0)
    read = f"{gib(total or 0)} in the machine" + (f", limit {gib(limit)}" if limit else ", no limit")
    if kept:
        read += f", {gib(kept)} of it for KV"
    if have < need:
        what = "lower DSV4_KV_OFFLOAD_GB, " if kept else ""
        subject = "DSV4_KV_OFFLOAD_GB" if kept and have >= need - kept - offload.ENGINE_RESERVE else ""
        remedy = f"{what}raise the container's --memory, or add memory"
        return fail(f"{read}; about {gib(need)} are needed", remedy, subject)
    if kept and (crowded := _crowded(s)):
        return crowded
    if have < need + (cache := _shards(s)):
        left = f"{gib(have - need)} left to cache {gib(cache)} of shards"
        left += ", which every server reads at the same time" if _servers(s) > 1 else ""
        return warn(f"{read}; {gib(need)} needed, {left}", "raise the container's --memory: the disk bounds the load")
    return ok(read)


def _shards(s: Situation) -> float:
    """Bytes that servers which load side by side read from the disk once, if they fit into memory."""
    weights = s.around.model.total_bytes or (s.around.entry.weights_bytes if s.around.entry else None)
    return max(_CACHE, weights or 0) if _servers(s) > 1 else _CACHE


def _servers(s: Situation) -> int:
    return len(s.placement.roles) if s.placement else 1


def _crowded(s: Situation) -> Finding | None:
    """Servers whose memory is bound to NUMA nodes that can't hold what they shall keep."""
    if s.placement is None or s.around.numa_policy != "membind":
        return None
    sizes = {node.id: node.memory_bytes for node in s.facts.numa_nodes}
    bound = [role for role in s.placement.roles if role.role != "decode" and role.memory_nodes]
    for nodes in dict.fromkeys(role.memory_nodes for role in bound):
        here = [role for role in bound if role.memory_nodes == nodes]
        room = sum(sizes.get(node, 0) for node in nodes)
        need = (s.settings.kv_offload_gb or 0) * len(here) * offload.GB
        need += sum(role.tensor_parallel for role in here) * _PER_RANK
        if room < need:
            where = f"{' and '.join(role.name for role in here)} bound to memory of node {', '.join(map(str, nodes))}"
            read = f"{where}, {gib(room)}; about {gib(need)} are needed"
            return fail(read, "lower DSV4_KV_OFFLOAD_GB, or set DSV4_NUMA=off", "DSV4_KV_OFFLOAD_GB")
    return None


CHECK = Check(
    name="host-memory",
    place=50,
    symptom='"scheduler died during initialization (exit code: -9)": the kernel\'s OOM killer',
    why="The kernel kills a rank without any message when the cgroup's limit is reached during the load.",
    source="SGLang 0.5.23 engine.py (exit code -9 hint); docker run --memory reference",
    run=_run,
    expected="enough memory to load the servers",
    fatal=True,
)
