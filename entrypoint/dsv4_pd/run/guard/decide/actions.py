"""What to do now in a state: pure, and repeated until the world shows the effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.states import Act, Action, Answer, Observation, RoleView, State
from dsv4_pd.run.states import CLOSING, StateName

FAILED_DRAIN = 2.0  # a failed pair can't finish what is in flight
LEAVE_S = 4.0  # until the router, which looks at every member each second, gives a leaving one nothing new


def actions(state: State, seen: Observation, limits: Limits) -> Iterator[Action]:
    if state.name in CLOSING:
        yield from _closing_actions(state, seen, limits)
    elif state.name is StateName.SAFE:
        yield from (Action(Act.KILL, role.name) for role in seen.here if role.up)
        if seen.front is not None and _may_start(seen.front):
            yield Action(Act.START, seen.front.name)  # a client is told why nothing is served
    else:
        yield from _running_actions(state, seen, limits)


def _running_actions(state: State, seen: Observation, limits: Limits) -> Iterator[Action]:
    for role in (*seen.here, *seen.way):
        if role.up and (role.name, role.deaths) in state.condemned:
            yield Action(Act.KILL, role.name)
        elif _may_start(role) and seen.now >= max(state.not_before, _own_wait(role, state, seen)):
            yield Action(Act.START, role.name)
    unlisted = any(role.unlisted and role.ready is Answer.YES for role in seen.servers)
    judged = state.settled is not None or (bool(seen.paths) and not conditions.programs_missing(seen))
    barred = any(role.barred for role in seen.servers)
    if seen.router and seen.router.up and (barred or (judged and (seen.router.ready is Answer.NO or unlisted))):
        yield Action(Act.REGISTER, seen.router.name)
    yield from (Action(Act.ABORT, name) for name in _waiting_in_vain(seen, limits))


def _own_wait(role: RoleView, state: State, seen: Observation) -> float:
    """A member's own back-off, which nobody waits for once it is needed."""
    return state.budget(role.name).not_before if conditions.spared(seen, [role.name], state.condemned) else 0.0


def _waiting_in_vain(seen: Observation, limits: Limits) -> Iterator[str]:
    """Servers that hold requests for a peer that has just ended: prefill alone.

    What decode computes came across before prefill ended, and is finished; what still waits in it is failed by the
    engine, which asks for prefill's bootstrap port every two seconds. Prefill has no such clock for decode. It can't
    tell whose requests it holds, so those for another decode end with them, and for a shorter time.
    """
    views = {role.name: role for role in seen.servers}
    waiting = [
        name
        for name in dict.fromkeys(route[0] for route in seen.routes if len(route) > 1)
        if views[name].up and views[name].served
        and any(_just_ended(views[other], seen, _window(name, other, views, seen, limits))
                for route in seen.routes if route[0] == name for other in route[1:])
    ]  # fmt: skip
    yield from waiting


def _just_ended(role: RoleView, seen: Observation, window: float) -> bool:
    return role.ready is Answer.NO and role.deaths > 0 and seen.now - role.ended < window


def _window(name: str, gone: str, views: dict[str, RoleView], seen: Observation, limits: Limits) -> float:
    """For how long what a server holds for one that is gone is ended: shorter while it serves with another."""
    others = [route[-1] for route in seen.routes if route[0] == name and route[-1] != gone]
    shared = any(views[other].ready is Answer.YES for other in others)
    return min(limits.abort_window, limits.shared_abort_window) if shared else limits.abort_window


def _may_start(role: RoleView) -> bool:
    return role.idle and not role.up and not role.gpu_holder


def _closing_actions(state: State, seen: Observation, limits: Limits) -> Iterator[Action]:
    """The front first, so that nothing new comes in; then drain; then the router, and every server at once."""
    drain = limits.drain_timeout if state.name is StateName.STOPPING else FAILED_DRAIN
    elapsed = seen.now - state.since
    live = [role for role in (*seen.here, *seen.way) if role.up]
    door = next((role for role in reversed(seen.way) if role.up), None)
    if seen.router is None and _leaves(seen, elapsed, drain):
        return
    if door is not None and elapsed < drain:
        yield Action(Act.STOP, door.name)
    elif live and elapsed < drain + 5.0:
        yield from (Action(Act.KILL, role.name) for role in live)
    else:
        yield Action(Act.SHUTDOWN)


def _leaves(seen: Observation, elapsed: float, drain: float) -> bool:
    """Whether a member still finishes what its router gave it, or may yet be given more."""
    serves = any(role.up and role.served for role in seen.servers)
    return serves and elapsed < drain and (elapsed < LEAVE_S or any(role.busy for role in seen.servers))
