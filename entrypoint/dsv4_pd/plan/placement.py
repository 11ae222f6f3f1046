"""Which role runs on which GPUs, CPUs and NUMA nodes: `place(settings, profile, facts) -> Placement`, pure.

Explicit settings win and are checked. What is left open is chosen by topology: a tensor-parallel group crosses
neither a socket nor a PCIe switch when it need not, because each all-reduce would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dsv4_pd.errors import HardwareError, Problem, SettingsError
from dsv4_pd.host.facts import Gpu, HostFacts
from dsv4_pd.host.nvml_causes import explained
from dsv4_pd.plan.gpu_choice import choose_groups, eligible, named_gpus, resolved, too_few_named, unfit_reason
from dsv4_pd.plan.notices import Notice, NoticeKind
from dsv4_pd.plan.profiles import Profile
from dsv4_pd.settings.schema import Settings

RoleName = Literal["prefill", "decode", "single"]
_TENSOR_PARALLEL = (8, 4, 2, 1)  # must divide the model's 64 heads and 8 output groups


@dataclass(frozen=True, slots=True)
class RolePlacement:
    """One engine server: its GPUs in rank order (none on a CPU profile) and the NUMA node it binds to."""

    role: RoleName
    gpus: tuple[Gpu, ...]
    tensor_parallel: int
    base_gpu_id: int  # position of the first GPU in Placement.visible
    numa_node: int | None  # None: not bound, or bound to several (numa_nodes)
    cpus: frozenset[int]  # CPUs of those nodes that the cpuset allows; empty when not bound
    numa_nodes: tuple[int, ...] = ()  # nodes whose CPUs it binds to
    memory_nodes: tuple[int, ...] = ()  # nodes it takes memory from: the same, or the nearest that have any


@dataclass(frozen=True, slots=True)
class Placement:
    """The whole plan for the machine."""

    profile: str
    mode: Literal["pd", "single"]
    device: Literal["cuda", "cpu"]
    roles: tuple[RolePlacement, ...]
    visible: tuple[Gpu, ...]  # what every child sees, in this order: prefill's GPUs, then decode's
    notices: tuple[Notice, ...] = ()


def choose_profile(settings: Settings, facts: HostFacts, known: Mapping[str, Profile]) -> str:
    """The name of the profile; `auto` takes the largest pair that the GPUs carry, or `single` in that mode.

    Raises:
        HardwareError: when no GPU is visible or no profile fits the ones that are.
    """
    if settings.profile != "auto":
        return settings.profile
    _require_gpus(facts)
    if settings.mode == "single":
        return "single"
    pairs = [(p.gpus, p) for p in known.values() if p.gpus is not None and "prefill" in p.tensor_parallel]
    pairs.sort(key=lambda pair: -pair[0].count)
    resolved(settings, facts.gpus)  # a wrong name is a wrong setting, before anything is counted
    wanted = 2 * max(len(settings.prefill_gpus), len(settings.decode_gpus))  # an open role takes as many
    if 0 < wanted < pairs[-1][0].count:
        raise SettingsError([too_few_named(wanted, pairs[-1][0].count)])
    for need, profile in pairs:
        if (not wanted or need.count <= wanted) and len(eligible(settings, need, facts.gpus)) >= need.count:
            return profile.name
    raise HardwareError([_too_few(settings, pairs[-1][1], facts)])


def place(settings: Settings, profile: Profile, facts: HostFacts) -> Placement:
    """Roles to GPUs and NUMA nodes.

    Raises:
        SettingsError: a GPU that a setting names is unknown, doubled, in both roles, or too few are named.
        HardwareError: no GPU, the wrong GPU, or too few of the right ones.
    """
    mode: Literal["pd", "single"] = "single" if settings.mode == "single" else "pd"
    roles: tuple[RoleName, ...] = ("single",) if mode == "single" else ("prefill", "decode")
    if profile.gpus is None:
        return Placement(profile.name, mode, "cpu", tuple(_on_cpu(role) for role in roles), ())
    _require_gpus(facts)
    groups = _groups(settings, profile, facts, roles)
    visible = tuple(gpu for group in groups for gpu in group)
    placed, notices, base = [], _group_notices(settings, profile, facts, visible), 0
    for role, group in zip(roles, groups, strict=True):
        binding, more = _bind(settings, facts, role, group)
        placed.append(RolePlacement(role, group, len(group), base, *binding))
        notices += more
        base += len(group)
    return Placement(profile.name, mode, "cuda", tuple(placed), visible, tuple(notices))


def _on_cpu(role: RoleName) -> RolePlacement:
    return RolePlacement(role, (), 1, 0, None, frozenset())


def _require_gpus(facts: HostFacts) -> None:
    if facts.gpus:
        return
    inside = facts.software.container is not None
    read, remedy = explained(facts.gpu_error or "the driver lists no GPU", inside, facts.gpu_error_code)
    raise HardwareError(
        [
            Problem(
                "no GPU visible",
                read,
                "NVIDIA GPUs that the driver lists",
                f"{remedy}; DSV4_PROFILE=demo-cpu runs the whole appliance without a GPU",
            )
        ]
    )


def _groups(
    settings: Settings, profile: Profile, facts: HostFacts, roles: tuple[RoleName, ...]
) -> tuple[tuple[Gpu, ...], ...]:
    need = profile.gpus
    assert need is not None
    named = named_gpus(settings, need, facts.gpus)
    free = [gpu for gpu in eligible(settings, need, facts.gpus) if gpu not in [*named["prefill"], *named["decode"]]]
    if roles == ("single",):
        return (_single_group(settings, profile, facts, (*named["prefill"], *named["decode"]) or tuple(free)),)
    sizes = {role: len(named[role]) or profile.tensor_parallel[role] for role in roles}
    if all(named[role] for role in roles):
        return tuple(named[role] for role in roles)
    open_roles = [role for role in roles if not named[role]]
    if len(open_roles) == 1:  # the layouts must agree: the open role takes as many as the named one
        sizes[open_roles[0]] = sizes[next(role for role in roles if named[role])]
    if len(free) < sum(sizes[role] for role in open_roles):
        raise HardwareError([_too_few(settings, profile, facts)])
    chosen = choose_groups(free, [sizes[role] for role in open_roles])
    filled = dict(zip(open_roles, chosen, strict=True))
    return tuple(named[role] or filled[role] for role in roles)


def _single_group(settings: Settings, profile: Profile, facts: HostFacts, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    wanted = profile.tensor_parallel.get("single", 0)
    size = next((n for n in _TENSOR_PARALLEL if n <= len(gpus) and (not wanted or n <= wanted)), 0)
    if not size:
        raise HardwareError([_too_few(settings, profile, facts)])
    return choose_groups(list(gpus), [size])[0]


def _too_few(settings: Settings, profile: Profile, facts: HostFacts) -> Problem:
    need = profile.gpus
    assert need is not None
    fit = len(eligible(settings, need, facts.gpus))
    unfit = [f"{gpu.index} ({gpu.name}): {why}" for gpu in facts.gpus if (why := unfit_reason(settings, need, gpu))]
    listed = f" (not counted: {'; '.join(unfit)})" if unfit else ""
    major, minor = need.compute_capability
    return Problem(
        f"profile {profile.name}",
        f"{fit} fitting GPU{'s' if fit != 1 else ''} of {len(facts.gpus)}{listed}",
        f"{need.count} of compute capability {major}.{minor} with {need.min_memory_gb:g} GB or more",
        "choose a smaller DSV4_PROFILE, name the cards in DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS, "
        "or run DSV4_PROFILE=demo-cpu",
    )


def _group_notices(settings: Settings, profile: Profile, facts: HostFacts, visible: tuple[Gpu, ...]) -> list[Notice]:
    """Cards left aside, and cards that somebody else uses."""
    need = profile.gpus
    assert need is not None
    notices = []
    for gpu in facts.gpus:
        if gpu not in visible:
            reason = unfit_reason(settings, need, gpu)
            kind = NoticeKind.CARD_UNFIT if reason else NoticeKind.CARD_SPARE
            text = f"GPU {gpu.index} ({gpu.name}) is left aside: {reason or 'not needed'}"
            notices.append(Notice(kind, gpu.uuid, text))
    for gpu in visible:
        for process in gpu.processes:
            size = f" ({process.memory_bytes / 1e9:.1f} GB)" if process.memory_bytes else ""
            text = f"GPU {gpu.index} is in use by {process.name or 'a process'} (pid {process.pid}){size}"
            notices.append(Notice(NoticeKind.CARD_BUSY, gpu.uuid, text))
    return notices


_Binding = tuple[int | None, frozenset[int], tuple[int, ...], tuple[int, ...]]
_UNBOUND: _Binding = (None, frozenset(), (), ())


def _bind(
    settings: Settings, facts: HostFacts, role: RoleName, group: tuple[Gpu, ...]
) -> tuple[_Binding, list[Notice]]:
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


def _narrowed(role: RoleName, group: tuple[Gpu, ...], nodes: list[int], usable: list[int]) -> list[Notice]:
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


def _unbound(settings: Settings, role: RoleName, reason: str) -> tuple[_Binding, list[Notice]]:
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


def _memory_nodes(facts: HostFacts, role: RoleName, nodes: list[int]) -> tuple[tuple[int, ...], list[Notice]]:
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
