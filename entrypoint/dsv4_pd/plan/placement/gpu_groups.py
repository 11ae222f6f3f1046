"""Groups of GPUs by topology: a group crosses neither a socket nor a PCIe switch when it need not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from dsv4_pd.host.facts import Gpu


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
