"""What to do now in a state: pure, and repeated until the world shows the effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsv4_pd.plan.guard_config import Limits
from dsv4_pd.run.guard.states import Act, Action, Answer, Observation, RoleView, State
from dsv4_pd.run.states import CLOSING, StateName

FAILED_DRAIN = 2.0  # a failed pair can't finish what is in flight


def actions(state: State, seen: Observation, limits: Limits) -> Iterator[Action]:
    if state.name in CLOSING:
        yield from _closing_actions(state, seen, limits)
    elif state.name is StateName.SAFE:
        yield from (Action(Act.KILL, role.name) for role in seen.servers if role.up)
    else:
        yield from _running_actions(state, seen, limits)


def _running_actions(state: State, seen: Observation, limits: Limits) -> Iterator[Action]:
    for role in seen.roles:
        if role.up and (role.name, role.deaths) in state.condemned:
            yield Action(Act.KILL, role.name)
        elif _may_start(role) and seen.now >= state.not_before:
            yield Action(Act.START, role.name)
    if state.settled is not None and seen.router.ready is Answer.NO:
        yield Action(Act.REGISTER, seen.router.name)
    yield from (Action(Act.ABORT, name) for name in _waiting_in_vain(seen, limits))


def _waiting_in_vain(seen: Observation, limits: Limits) -> Iterator[str]:
    """Servers that hold requests for a peer that has just ended: prefill alone.

    What decode computes came across before prefill ended, and is finished; what still waits in it is failed by the
    engine, which asks for prefill's bootstrap port every two seconds. Prefill has no such clock for decode.
    """
    if len(seen.servers) < 2:
        return
    first, last = seen.servers
    if (
        first.up
        and first.served
        and last.ready is Answer.NO
        and last.deaths
        and seen.now - last.ended < limits.abort_window
    ):
        yield first.name


def _may_start(role: RoleView) -> bool:
    return role.idle and not role.up and not role.gpu_holder


def _closing_actions(state: State, seen: Observation, limits: Limits) -> Iterator[Action]:
    """Router first, so that nothing new comes in; then drain; then every server at once."""
    drain = limits.drain_timeout if state.name is StateName.STOPPING else FAILED_DRAIN
    elapsed = seen.now - state.since
    live = [role for role in seen.roles if role.up]
    if seen.router.up and elapsed < drain:
        yield Action(Act.STOP_ROUTER, seen.router.name)
    elif live and elapsed < drain + 5.0:
        yield from (Action(Act.KILL, role.name) for role in live)
    else:
        yield Action(Act.SHUTDOWN)
