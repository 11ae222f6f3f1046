"""Picking GPUs: by the names that an operator gives, by fitness, and into groups by topology. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from dsv4_pd.errors import HardwareError, Problem, SettingsError
from dsv4_pd.host.facts import Gpu
from dsv4_pd.host.parse import bus_id
from dsv4_pd.plan.profiles import GpuNeed
from dsv4_pd.settings.layout import Layout
from dsv4_pd.settings.schema import Settings

_ROLES = ("prefill", "decode")
_ACCEPTED = "an index, a UUID (or its unambiguous start) or a PCI bus id of a GPU of this host"


def minimum_gb(settings: Settings, need: GpuNeed) -> float:
    """Smallest memory a GPU may have, in GB."""
    return settings.min_vram_gb or need.min_memory_gb


def unfit_reason(settings: Settings, need: GpuNeed, gpu: Gpu) -> str | None:
    """Why a GPU can't carry a role, or None."""
    if gpu.compute_capability != need.compute_capability:
        have, want = (".".join(map(str, cc)) for cc in (gpu.compute_capability, need.compute_capability))
        return f"compute capability {have}, not {want}"
    if gpu.memory_bytes < minimum_gb(settings, need) * 1e9:
        return f"{gpu.memory_bytes / 1e9:.0f} GB of memory, less than {minimum_gb(settings, need):g}"
    if gpu.mig:
        return f"MIG is on (nvidia-smi -i {gpu.index} -mig 0 turns it off)"
    return None


def eligible(settings: Settings, need: GpuNeed, gpus: Iterable[Gpu]) -> list[Gpu]:
    """GPUs that can carry a role, in PCI bus order."""
    return [gpu for gpu in gpus if unfit_reason(settings, need, gpu) is None]


def find_gpu(name: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """The GPU of an index, a UUID, the unambiguous start of one, or a PCI bus id."""
    if name.isdecimal():
        return next((gpu for gpu in gpus if gpu.index == int(name)), None)
    if ":" in name:
        return next((gpu for gpu in gpus if gpu.pci_bus_id == bus_id(name)), None)
    lowered = name.lower() if name.lower().startswith("gpu-") else f"gpu-{name.lower()}"
    found = [gpu for gpu in gpus if gpu.uuid.lower().startswith(lowered)]
    return found[0] if len(found) == 1 and len(lowered) > len("gpu-") else None


def named_gpus(settings: Settings, need: GpuNeed, gpus: Sequence[Gpu], layout: Layout) -> dict[str, tuple[Gpu, ...]]:
    """The GPUs that the settings name, by role; empty where a role is left open. Of a layout without roles both lists
    together are the servers'.

    Raises:
        SettingsError: for every name that is unknown, doubled or in both roles, and for unequal groups.
        HardwareError: for every named GPU that can't carry a role.
    """
    found = resolved(settings, gpus, layout)
    unfit = [
        Problem(
            _setting(role),
            f"GPU {gpu.index} ({gpu.name}): {reason}",
            "a GPU that fits the profile",
            "name another card or choose another DSV4_PROFILE",
        )
        for role in _ROLES
        for gpu in found[role]
        if (reason := unfit_reason(settings, need, gpu))
    ]
    if unfit:
        raise HardwareError(unfit)
    return found


def resolved(settings: Settings, gpus: Sequence[Gpu], layout: Layout) -> dict[str, tuple[Gpu, ...]]:
    """The GPUs that the settings name, by role, whatever they are.

    Raises:
        SettingsError: for every name that is unknown, doubled or in both roles, and for groups that are unequal or not
            as large as the layout says.
    """
    problems: list[Problem] = []
    found: dict[str, tuple[Gpu, ...]] = {}
    for role in _ROLES:
        names = settings.prefill_gpus if role == "prefill" else settings.decode_gpus
        found[role], wrong = _resolve(_setting(role), names, gpus)
        problems += wrong
    problems += _overlap(found)
    if not problems:
        problems += _counts(found, layout) or (_sizes(found) if layout.kind == "pd" else [])
    if problems:
        raise SettingsError(problems)
    return found


def too_few_named(count: int, smallest: int) -> Problem:
    """Both roles are named, and together they are fewer than any profile has: a wrong setting."""
    return Problem(
        "DSV4_PREFILL_GPUS and DSV4_DECODE_GPUS",
        f"{count // 2} + {count // 2} GPUs",
        f"{smallest} or more: the weights of the smallest pair need {smallest // 2} cards for each role",
        "name more cards, or set DSV4_LAYOUT=single",
    )


def _setting(role: str) -> str:
    return f"DSV4_{role.upper()}_GPUS"


def _resolve(setting: str, names: Sequence[str], gpus: Sequence[Gpu]) -> tuple[tuple[Gpu, ...], list[Problem]]:
    problems: list[Problem] = []
    found: list[Gpu] = []
    for name in names:
        gpu = find_gpu(name, gpus)
        if gpu is None:
            listed = ", ".join(f"{g.index} ({g.uuid}, {g.pci_bus_id})" for g in gpus)
            mig = "; MIG slices can't be used" if name.upper().startswith("MIG-") else ""
            problems.append(Problem(setting, repr(name), _ACCEPTED + mig, f"choose from {listed}"))
        elif gpu in found:
            problems.append(Problem(setting, f"GPU {gpu.index} twice", "each GPU once", f"remove one {name!r}"))
        else:
            found.append(gpu)
    return tuple(found), problems


def _overlap(found: dict[str, tuple[Gpu, ...]]) -> list[Problem]:
    both = [gpu for gpu in found["prefill"] if gpu in found["decode"]]
    return [
        Problem(
            "DSV4_DECODE_GPUS",
            f"GPU {gpu.index}, which DSV4_PREFILL_GPUS has as well",
            "each GPU in one role",
            f"remove GPU {gpu.index} from one of the two",
        )
        for gpu in both
    ]


def _counts(found: dict[str, tuple[Gpu, ...]], layout: Layout) -> list[Problem]:
    """Lists that are not as long as the layout says, where it says how long."""
    lists = {"single": (*found["prefill"], *found["decode"])} if layout.kind != "pd" else found
    return [
        Problem(
            _setting(group.role) if layout.kind == "pd" else "DSV4_PREFILL_GPUS",
            f"{len(named)} GPUs",
            f"{group.count * group.tensor_parallel} for DSV4_LAYOUT={layout}",
            "name as many, or none to have them chosen",
        )
        for group in layout.groups
        if group.tensor_parallel and (named := lists[group.role]) and len(named) != group.count * group.tensor_parallel
    ]


def _sizes(found: dict[str, tuple[Gpu, ...]]) -> list[Problem]:
    problems = [
        Problem(
            _setting(role),
            f"{len(found[role])} GPUs",
            "1, 2, 4 or 8: the model's 64 heads are split evenly",
            "add or remove cards",
        )
        for role in _ROLES
        if len(found[role]) not in (0, 1, 2, 4, 8)
    ]
    prefill, decode = len(found["prefill"]), len(found["decode"])
    if not problems and prefill and decode and prefill != decode:
        problems.append(
            Problem(
                "DSV4_DECODE_GPUS",
                f"{decode} GPUs where DSV4_PREFILL_GPUS has {prefill}",
                "as many as prefill: both roles must have the same layout",
                "make them equal",
            )
        )
    return problems


def choose_groups(free: Sequence[Gpu], sizes: Sequence[int]) -> list[tuple[Gpu, ...]]:
    """Disjoint groups of the given sizes (any two, or all alike) that cross the least: sockets, then switches, then
    nodes.

    Cards in use come last; ties go to the first cards in bus order.
    """
    first = _ranked(free, sizes[0])
    if len(sizes) == 1:
        return [first[0][1]]
    if len(sizes) > 2:
        return _choose_alike(first, len(sizes))
    second = first if sizes[1] == sizes[0] else _ranked(free, sizes[1])
    best: tuple[tuple[int, ...], list[tuple[Gpu, ...]]] | None = None
    for cost_a, group_a in first:
        for cost_b, group_b in second:
            total = _sum(cost_a, cost_b)
            if best is not None and total >= best[0]:
                break  # ranked by cost: no later partner is cheaper
            if not set(group_a) & set(group_b):
                best = (total, [group_a, group_b])
                break
    assert best is not None  # the caller has counted the cards
    return best[1]


_Cost = tuple[int, ...]
_Ranked = list[tuple[_Cost, tuple[Gpu, ...]]]


def _choose_alike(ranked: _Ranked, count: int) -> list[tuple[Gpu, ...]]:
    """The cheapest `count` disjoint groups of one ranked list, by depth first with a bound: what is still to come costs
    at least as much each as the group at hand.
    """
    best: tuple[_Cost, list[tuple[Gpu, ...]]] | None = None

    def search(at: int, total: _Cost, chosen: list[tuple[Gpu, ...]], used: frozenset[Gpu]) -> None:
        nonlocal best
        left = count - len(chosen)
        if not left:
            best = (total, chosen)
            return
        for number in range(at, len(ranked)):
            cost, group = ranked[number]
            bound = tuple(a + b * left for a, b in zip(total, cost, strict=True))
            if best is not None and bound >= best[0]:
                return
            if used.isdisjoint(group):
                search(number + 1, _sum(total, cost), [*chosen, group], used | set(group))

    search(0, (0,) * len(ranked[0][0]), [], frozenset())
    assert best is not None  # the caller has counted the cards
    return best[1]


def _sum(one: _Cost, other: _Cost) -> _Cost:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _ranked(free: Sequence[Gpu], size: int) -> list[tuple[tuple[int, ...], tuple[Gpu, ...]]]:
    position = {gpu: i for i, gpu in enumerate(free)}
    groups = [(_cost(group, position), group) for group in combinations(free, size)]
    return sorted(groups, key=lambda item: (item[0], [position[gpu] for gpu in item[1]]))


def _cost(group: tuple[Gpu, ...], position: dict[Gpu, int]) -> tuple[int, ...]:
    busy = sum(1 for gpu in group if gpu.processes)
    spread = position[group[-1]] - position[group[0]] if group else 0
    return (
        busy,
        len({gpu.socket for gpu in group}),
        len({switch(gpu) for gpu in group}) + len({gpu.bridges[1:3] for gpu in group if behind_switch(gpu)}),
        len({gpu.numa_node for gpu in group}),
        spread,
    )


def behind_switch(gpu: Gpu) -> bool:
    """Whether a PCIe switch (an upstream and a downstream port) lies between root port and card."""
    return len(gpu.bridges) >= 4


def switch(gpu: Gpu) -> str:
    """What the card shares with its neighbours: the nearest PCIe switch, else its socket's root ports."""
    return gpu.bridges[-2] if behind_switch(gpu) else f"socket {gpu.socket}"
