"""Every silence has a timer of its own: what a program that served owes, since when, and for how long it is waited for.

Pure. A clock runs on while a probe gets no yes, whether the answer is no or missing, and restarts with each sign of
work that no client can forge: tokens that move, a canary that came through, a compiler that runs within its own bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.states import CANARY_FAILURES, Answer, Observation, RoleView

Clocks = tuple[tuple[str, float], ...]


def run(clocks: Clocks, seen: Observation) -> Clocks:
    """The clocks at this instant: those that still run keep their beginning, the others are dropped."""
    before = dict(clocks)
    return tuple((key, before.get(key, seen.now)) for key in _quiet(seen))


def _quiet(seen: Observation) -> Iterator[str]:
    for role in seen.servers:
        if role.up and role.served:
            yield from [f"{role.name} /ready"] * (role.ready is not Answer.YES)
            yield from [f"{role.name} /health"] * (role.health is not Answer.YES)
            yield from [f"{role.name} bootstrap"] * _bootstrap_owed(role, seen)
            # Of a single route the plugins are looked at with the whole path, before it serves.
            yield from [f"{role.name} plugins"] * (bool(seen.paths) and bool(role.unproved))
    if seen.paths and seen.canary.failures >= CANARY_FAILURES:
        yield "router's way"
    if (
        seen.router and seen.router.ready is Answer.SILENT and not conditions.programs_missing(seen)
    ):  # it may wait for a silent server
        yield "router"
    if seen.front is not None and seen.front.up and seen.front.ready is not Answer.YES:
        yield "front"


def _bootstrap_owed(role: RoleView, seen: Observation) -> bool:
    """A port that refuses takes a single route out of READY, where the broken path is looked at. Among several it does
    not.
    """
    return role.bootstrap is Answer.SILENT or (bool(seen.paths) and role.bootstrap is Answer.NO)


def last_work(role: RoleView, limits: Limits) -> float:
    """When the program last showed that it works: tokens that moved, an answered /health, a compiler."""
    return max(role.worked, compiled(role, limits))


def compiled(role: RoleView, limits: Limits) -> float:
    """When a compiler was last seen in its process tree; 0 for none, and for one that runs beyond its own bound."""
    began, latest = role.compiling or (0.0, 0.0)
    return latest if latest - began <= limits.compile_timeout else 0.0


def overdue(clocks: Clocks, seen: Observation, limits: Limits) -> Iterator[tuple[str, str]]:
    """Which program was waited for long enough, and why, most telling first."""
    since = dict(clocks)

    def late(key: str, bound: float, work: float) -> bool:
        return key in since and seen.now - max(since[key], work) > bound

    for role in seen.here:
        through = seen.through(role.name)
        work = max(last_work(role, limits), through)
        said_no = role.ready is Answer.NO
        bound = limits.unready_timeout if said_no else limits.silent_timeout
        if late(f"{role.name} /ready", bound, work):
            yield role.name, _cause(role, "/ready says no" if said_no else "/ready does not answer", bound, limits)
        elif late(f"{role.name} /health", limits.silent_timeout, work):
            yield role.name, _cause(role, "its own test generation fails", limits.silent_timeout, limits)
    for role in seen.here:
        bound = limits.router_timeout if role.bootstrap is Answer.NO else limits.silent_timeout
        if late(f"{role.name} bootstrap", bound, seen.through(role.name)):
            yield role.name, f"{role.name}: its bootstrap port has not answered for {bound:.0f} s"
        if late(f"{role.name} plugins", limits.plugin_timeout, 0.0):
            yield role.name, conditions.not_live(role.unproved)
    if seen.router and late("router", limits.unready_timeout, seen.canary.sent or 0.0):
        yield seen.router.name, f"router: has not answered for {limits.unready_timeout:.0f} s"
    if seen.front is not None:
        yield from _front(seen.front, late, limits)
    began = since.get("router's way")
    if seen.router and began is not None and all((path.canary.sent or 0.0) > began for path in seen.paths):
        cause = f"router: canary: {seen.canary.failure}, while every server answered one of its own"
        yield seen.router.name, cause


def _front(front: RoleView, late: Callable[[str, float, float], bool], limits: Limits) -> Iterator[tuple[str, str]]:
    """A front at work is busy, starting or starved, and is waited for; one that is not is stuck."""
    refuses = front.ready is Answer.NO
    bound = limits.unready_timeout if refuses else limits.front_timeout
    work = max(front.started, front.worked)
    endless = front.served and late(
        "front", limits.silent_timeout, front.started
    )  # a start may take as long as it works
    if late("front", bound, work) or endless:
        yield front.name, f"front: {front.detail or 'refuses connections'}" if refuses else "front: has not answered"


def _cause(role: RoleView, what: str, bound: float, limits: Limits) -> str:
    began, latest = role.compiling or (0.0, 0.0)
    if latest - began > limits.compile_timeout:
        return f"{role.name}: {what}, and a compiler has run for more than {limits.compile_timeout:.0f} s"
    return f"{role.name}: {what} for {bound:.0f} s, and nothing is computed"
