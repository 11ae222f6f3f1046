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
from dsv4_pd.plan.notices import Notice, NoticeKind
from dsv4_pd.plan.placement.binding import bind
from dsv4_pd.plan.placement.gpu_choice import eligible, named_gpus, resolved, too_few_named, unfit_reason
from dsv4_pd.plan.placement.gpu_groups import choose_groups
from dsv4_pd.plan.placement.members import layout_of
from dsv4_pd.plan.placement.shortage import require_gpus, too_few
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.interfaces import is_rdma
from dsv4_pd.settings.layout import PAIR, PAIR_ROLES, TENSOR_PARALLEL, Group, Kind, Layout, RoleName, member_name
from dsv4_pd.settings.schema import Settings


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
    index: int = 0  # its number within the role, from 1; 0 is the only one of its role

    @property
    def name(self) -> str:
        """What it is called everywhere."""
        return member_name(self.role, self.index)


@dataclass(frozen=True, slots=True)
class Placement:
    """The whole plan for the machine."""

    profile: str
    mode: Kind
    device: Literal["cuda", "cpu"]
    roles: tuple[RolePlacement, ...]  # one a member
    visible: tuple[Gpu, ...]  # what every child sees, member by member in the order of `roles`
    notices: tuple[Notice, ...] = ()

    @property
    def layout(self) -> Layout:
        """What was placed, with its sizes."""
        found: dict[RoleName, list[int]] = {}
        for member in self.roles:
            found.setdefault(member.role, []).append(member.tensor_parallel)
        return Layout(self.mode, tuple(Group(role, len(sizes), sizes[0]) for role, sizes in found.items()))


def choose_profile(settings: Settings, facts: HostFacts, known: Mapping[str, Profile]) -> str:
    """The name of the profile; `auto` takes the largest pair that the GPUs carry, or `single` for one server. A layout
    with sizes takes the pair whose servers are as large as its own, because defaults go with the share of the weights.

    Raises:
        HardwareError: when no GPU is visible or no profile fits the ones that are.
    """
    if settings.profile != "auto":
        return settings.profile
    if settings.role != "router":
        require_gpus(facts)
    layout = settings.layout or PAIR
    pairs = [(p.gpus, p) for p in known.values() if p.gpus is not None and "prefill" in p.tensor_parallel]
    pairs.sort(key=lambda pair: -pair[0].count)
    if settings.role != "all":
        return _of_role(settings, facts, [profile for _, profile in pairs])
    small = _small(known)
    resolved(settings, facts, layout)  # a wrong name is a wrong setting, before anything is counted
    if layout.kind == "single":
        return _one_server(settings, facts, layout, small)
    if size := layout.groups[0].tensor_parallel:
        fitting = [p.name for _, p in pairs if p.tensor_parallel["prefill"] <= size]
        return fitting[0] if fitting else pairs[-1][1].name
    wanted = 2 * max(len(settings.prefill_gpus), len(settings.decode_gpus))  # an open role takes as many
    if 0 < wanted < pairs[-1][0].count:
        raise SettingsError([too_few_named(wanted, pairs[-1][0].count)])
    for need, profile in pairs:
        if (not wanted or need.count <= wanted) and len(eligible(settings, need, facts.gpus)) >= need.count:
            return profile.name
    if wanted or settings.layout or small is None or small.gpus is None:
        raise HardwareError([too_few(settings, pairs[-1][1], facts)])
    if len(eligible(settings, small.gpus, facts.gpus)) >= small.gpus.count:
        return small.name
    raise HardwareError([too_few(settings, small, facts)])


def _of_role(settings: Settings, facts: HostFacts, pairs: Sequence[Profile]) -> str:
    """The profile of one server of a pair: the largest that its cards carry. A router has no cards, and the defaults
    of the largest.

    Raises:
        HardwareError: no profile's server fits the cards.
    """
    role = settings.role
    if role == "router":
        return pairs[0].name
    sizes: dict[str, int | None] = {group.role: group.tensor_parallel for group in (settings.layout or PAIR).groups}
    asked = sizes.get(role) or len(settings.decode_gpus if role == "decode" else settings.prefill_gpus)
    for profile in pairs:
        assert profile.gpus is not None
        size = profile.tensor_parallel[role]
        if (not asked or size <= asked) and len(eligible(settings, profile.gpus, facts.gpus)) >= size:
            return profile.name
    raise HardwareError([too_few(settings, pairs[-1], facts, pairs[-1].tensor_parallel[role])])


def _small(known: Mapping[str, Profile]) -> Profile | None:
    """The profile for one server on fewer cards than any pair needs."""
    found = [
        p for p in known.values() if p.gpus and p.tensor_parallel.keys() == {"single"} and p.tensor_parallel["single"]
    ]
    return min(found, key=lambda profile: profile.tensor_parallel["single"], default=None)


def _one_server(settings: Settings, facts: HostFacts, layout: Layout, small: Profile | None) -> str:
    """`single`, or the profile whose defaults leave room for KV beside so large a share of the weights."""
    if small is None or small.gpus is None:
        return "single"
    fit = len(settings.prefill_gpus) + len(settings.decode_gpus) or len(eligible(settings, small.gpus, facts.gpus))
    size = layout.groups[0].tensor_parallel or next((n for n in TENSOR_PARALLEL if n <= fit), 0)
    return small.name if size == small.tensor_parallel["single"] else "single"


def place(settings: Settings, profile: Profile, facts: HostFacts) -> Placement:
    """Members to GPUs and NUMA nodes.

    Raises:
        SettingsError: a GPU that a setting names is unknown, doubled, in both roles, or too few are named.
        HardwareError: no GPU, the wrong GPU, or too few of the right ones.
    """
    layout = layout_of(settings, profile)
    said = [*_deprecated(settings), *_link_notice(settings)]
    if profile.gpus is None or settings.role == "router":
        return Placement(profile.name, layout.kind, "cpu", _on_cpu(layout, profile), (), tuple(said))
    require_gpus(facts)
    groups = _groups(settings, profile, facts, layout)
    visible = tuple(gpu for group in groups for gpu in group)
    placed, base = [], 0
    notices = [*said, *_group_notices(settings, profile, facts, visible)]
    for (role, index), group in zip(layout.members, groups, strict=True):
        binding, more = bind(settings, facts, member_name(role, index), group)
        placed.append(RolePlacement(role, group, len(group), base, *binding, index=index))
        notices += more
        base += len(group)
    return Placement(profile.name, layout.kind, "cuda", tuple(placed), visible, tuple(notices))


def _deprecated(settings: Settings) -> list[Notice]:
    """What the operator's settings should be called now."""
    return [Notice(NoticeKind.DEPRECATED, name, text) for name, text in settings.deprecated.items()]


def _link_notice(settings: Settings) -> list[Notice]:
    """What the KV cache crosses between hosts, where it is TCP: the slowest way."""
    if settings.role not in PAIR_ROLES or any(map(is_rdma, settings.net_devices)):
        return []
    text = f"the KV cache crosses TCP on {', '.join(settings.net_devices) or 'whatever UCX chooses'}: {_RDMA}"
    return [Notice(NoticeKind.LINK_OVER_TCP, "DSV4_NET_DEVICES", text)]


_RDMA = "with an RDMA device, name it in DSV4_NET_DEVICES (mlx5_0:1)"


def _on_cpu(layout: Layout, profile: Profile) -> tuple[RolePlacement, ...]:
    """One process a server: tensor parallelism on the CPU is no use to anybody.

    Raises:
        SettingsError: the layout asks for it.
    """
    if any((group.tensor_parallel or 1) > 1 for group in layout.groups):
        ones = "+".join(f"{group.count}x1" if group.count > 1 else "1" for group in layout.groups)
        raise SettingsError(
            [
                Problem(
                    "DSV4_LAYOUT",
                    str(layout),
                    f"servers of 1: profile {profile.name} has no GPUs",
                    f"set DSV4_LAYOUT={layout.kind}:{ones}",
                )
            ]
        )
    return tuple(RolePlacement(role, (), 1, 0, None, frozenset(), index=index) for role, index in layout.members)


def _groups(settings: Settings, profile: Profile, facts: HostFacts, layout: Layout) -> tuple[tuple[Gpu, ...], ...]:
    """The GPUs of each member, in the layout's order."""
    need = profile.gpus
    assert need is not None
    named = named_gpus(settings, need, facts, layout)
    free = [gpu for gpu in eligible(settings, need, facts.gpus) if gpu not in [*named["prefill"], *named["decode"]]]
    if layout.kind != "pd":
        together = (*named["prefill"], *named["decode"])
        size = layout.groups[0].tensor_parallel
        if size is None:
            return (_single_group(settings, profile, facts, together or tuple(free)),)
        named, groups = {"single": together}, layout.groups
    else:
        groups = tuple(_sized(group, named[group.role], profile) for group in layout.groups)
        groups = _alike(groups, named)
    return _fill(settings, profile, facts, groups, named, free)


def _sized(group: Group, named: tuple[Gpu, ...], profile: Profile) -> Group:
    """With a size: the layout's, else as many as are named, else the profile's.

    Raises:
        SettingsError: none of them says.
    """
    size = group.tensor_parallel or len(named) or profile.tensor_parallel.get(group.role)
    if not size:
        found = f"no size for {group.role}, which profile {profile.name} has not"
        remedy = "set DSV4_LAYOUT=pd:4+4, or another DSV4_PROFILE"
        raise SettingsError([Problem("DSV4_LAYOUT", found, "sizes, as in pd:4+4", remedy)])
    return Group(group.role, group.count, size)


def _alike(groups: tuple[Group, ...], named: Mapping[str, tuple[Gpu, ...]]) -> tuple[Group, ...]:
    """The sizes must agree: a role that is left open takes as many as the named one."""
    given = [group for group in groups if named[group.role]]
    if len(given) != 1:
        return groups
    return tuple(Group(group.role, group.count, given[0].tensor_parallel) for group in groups)


def _fill(
    settings: Settings,
    profile: Profile,
    facts: HostFacts,
    groups: tuple[Group, ...],
    named: Mapping[str, tuple[Gpu, ...]],
    free: list[Gpu],
) -> tuple[tuple[Gpu, ...], ...]:
    """What is named is divided in its order; the rest is chosen by topology, for all open members together."""
    sizes = [group.tensor_parallel or 0 for group in groups if not named[group.role] for _ in range(group.count)]
    if len(free) < sum(sizes):
        raise HardwareError(
            [too_few(settings, profile, facts, sum(g.count * (g.tensor_parallel or 0) for g in groups))]
        )
    chosen = iter(choose_groups(free, sizes) if sizes else [])
    return tuple(
        tuple(named[group.role][at * size : (at + 1) * size]) if named[group.role] else next(chosen)
        for group in groups
        for size in [group.tensor_parallel or 0]
        for at in range(group.count)
    )


def _single_group(settings: Settings, profile: Profile, facts: HostFacts, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    wanted = profile.tensor_parallel.get("single", 0)
    size = next((n for n in TENSOR_PARALLEL if n <= len(gpus) and (not wanted or n <= wanted)), 0)
    if not size:
        raise HardwareError([too_few(settings, profile, facts)])
    return choose_groups(list(gpus), [size])[0]


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
