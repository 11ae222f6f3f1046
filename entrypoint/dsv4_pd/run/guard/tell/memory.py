"""What a guard leaves to the one that follows it, in health.json: budgets, counts, and who has served."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dsv4_pd.run.guard.decide.states import MemberBudget, State
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.states import StateName


def of(state: State, world: World) -> dict[str, Any]:
    """As plain values."""
    return {
        "charges": state.charges,
        "failures": state.failures,
        "members": [asdict(one) for one in state.members],
        "fingerprint": world.config.fingerprint,
        "supervisord": os.getppid(),
        "deaths": {w.name: w.deaths for w in world.programs},
        "served": {name: watch.pid for name, watch in world.servers.items() if watch.served},
        "warm": {n: (w.warmed, w.warm_at) for n, w in world.servers.items() if w.warmed and w.warm_at},
        "models": {name: watch.model for name, watch in world.servers.items()},
        "shared_memory": {name: sorted(watch.shared_memory) for name, watch in world.servers.items()},
    }


def take_over(memory: Mapping[str, Any], world: World, now: float) -> State:
    """Give the world what it knew, and return the first state after a guard or a supervisord that died."""
    for name, paths in memory["shared_memory"].items():
        world.servers[name].shared_memory = frozenset(paths)
    for name, deaths in memory["deaths"].items():
        if known := world.watch(name):
            known.deaths = deaths  # what `restarts` counts goes on counting
    for name, (pid, stamp) in memory["models"].items():
        world.servers[name].model = (pid, stamp)
    for name, pid in memory.get("served", {}).items():
        world.servers[name].served_pid = pid  # what it logs decides nothing any more
    for name, (pid, at) in memory.get("warm", {}).items():
        world.servers[name].on_warmed_before(pid, at)
    return _resumed(memory, now, same_supervisor=memory["supervisord"] == os.getppid())


def _resumed(memory: Mapping[str, Any], now: float, *, same_supervisor: bool) -> State:
    """The restart budget outlives guard and supervisord."""
    members = tuple(MemberBudget(**{**one, "charges": tuple(one["charges"])}) for one in memory.get("members", ()))
    return State(
        StateName.BOOTING if same_supervisor else StateName.RECOVERING,
        "the guard was restarted" if same_supervisor else "supervisord was restarted",
        now,
        now,
        charges=tuple(memory["charges"]),
        failures=memory["failures"],
        deaths=tuple(memory["deaths"].items()),
        members=members,
    )
