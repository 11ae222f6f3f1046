"""Which NUMA nodes a member binds to: those of its GPUs, narrowed to what the cpuset allows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dsv4_pd.errors import HardwareError, Problem
from dsv4_pd.host.facts import Gpu, HostFacts
from dsv4_pd.plan.notices import Notice, NoticeKind
from dsv4_pd.settings.schema import Settings

# node (None: several, or not bound), CPUs, nodes whose CPUs it binds to, nodes it takes memory from
Binding = tuple[int | None, frozenset[int], tuple[int, ...], tuple[int, ...]]
_UNBOUND: Binding = (None, frozenset(), (), ())


def bind(settings: Settings, facts: HostFacts, role: str, group: tuple[Gpu, ...]) -> tuple[Binding, list[Notice]]:
    """Nodes of a role's GPUs, narrowed to what the cpuset allows; notices say what could not be had."""
    nodes = sorted({gpu.numa_node for gpu in group if gpu.numa_node is not None})
    if settings.numa == "off":
        return _UNBOUND, []
    if any(gpu.numa_node is None for gpu in group) or not nodes:
        return _unbound(settings, role, "the firmware does not say which NUMA node its GPUs belong to")
    known = {node.id: node for node in facts.numa_nodes}
    usable = [n for n in nodes if n in known and known[n].cpus & facts.allowed_cpus]
    if not usable:
        return _unbound(settings, role, f"the cpuset allows no CPU of NUMA node {_listed(nodes)}")
    notices = _narrowed(role, group, nodes, usable)
    cpus = frozenset().union(*(known[n].cpus for n in usable)) & facts.allowed_cpus
    memory, elsewhere = _memory_nodes(facts, role, usable)
    single = usable[0] if len(usable) == 1 and memory == (usable[0],) else None
    return (single, cpus, tuple(usable), memory), notices + elsewhere


def _narrowed(role: str, group: tuple[Gpu, ...], nodes: list[int], usable: list[int]) -> list[Notice]:
    """What a role's binding lacks: nodes of its GPUs, or one socket for all of them."""
    allowed = f"binding to {_listed(usable)}"
    notices = [
        Notice(NoticeKind.NODE_EXCLUDED, role, f"{role}: the cpuset allows no CPU of NUMA node {n}, {allowed}")
        for n in nodes
        if n not in usable
    ]
    sockets = len({gpu.socket for gpu in group})
    if sockets > 1:
        text = f"{role}: its GPUs sit on {sockets} sockets, so every all-reduce crosses them"
        notices.append(Notice(NoticeKind.SOCKETS_CROSSED, role, text))
    return notices


def _unbound(settings: Settings, role: str, reason: str) -> tuple[Binding, list[Notice]]:
    if settings.numa == "strict":
        raise HardwareError(
            [
                Problem(
                    "DSV4_NUMA",
                    f"strict, but for {role} {reason}",
                    "GPUs with a usable NUMA node",
                    "widen the container's --cpuset-cpus and --cpuset-mems, or set DSV4_NUMA=auto to start unbound",
                )
            ]
        )
    return _UNBOUND, [Notice(NoticeKind.UNBOUND, role, f"{role} is not bound to a NUMA node: {reason}")]


def _memory_nodes(facts: HostFacts, role: str, nodes: list[int]) -> tuple[tuple[int, ...], list[Notice]]:
    """The nodes themselves where they have memory that we may use, else the nearest that has."""
    allowed = facts.allowed_nodes
    having = {n.id for n in facts.numa_nodes if n.memory_bytes and (allowed is None or n.id in allowed)}
    own = tuple(n for n in nodes if n in having)
    if own or not having:
        return own, []
    node = next(n for n in facts.numa_nodes if n.id == nodes[0])
    order = [n.id for n in facts.numa_nodes]
    far = {n: node.distances[order.index(n)] if len(node.distances) == len(order) else 20 for n in having}
    nearest = min(having, key=lambda n: (far[n], n))
    text = f"{role}: NUMA node {_listed(nodes)} has no memory to give, taking it from node {nearest}"
    return (nearest,), [Notice(NoticeKind.MEMORY_ELSEWHERE, role, text)]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(n) for n in numbers)
