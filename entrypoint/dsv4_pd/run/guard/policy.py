"""What happens next: `next_state(state, observation, limits) -> (state, actions)`, pure and total.

Decisions are made on levels, not on edges: a missed event changes nothing, because the next observation shows the
same world, and every action is repeated until the world shows its effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dsv4_pd.plan.guard_config import Limits
from dsv4_pd.run.guard import conditions
from dsv4_pd.run.guard.states import Act, Action, Answer, Observation, Remedy, RoleView, State, Verdict
from dsv4_pd.run.states import CLOSING, SERVING, STARTING, StateName

CANARY_STRIKES = 2  # one failure may be the tail of an incident that is already over
SAME_INCIDENT = 2.0  # supervisord looks once a second, so what died together is heard of one after the other
FAILED_DRAIN = 2.0  # a failed pair can't finish what is in flight


@dataclass(frozen=True, slots=True)
class _Incident:
    """A failure that costs one restart of the budget: who is restarted, why, the exit code if the budget is spent."""

    names: tuple[str, ...]
    cause: str
    exit_code: int = 1


def next_state(state: State, seen: Observation, limits: Limits) -> tuple[State, tuple[Action, ...]]:
    """The next state, and what to do now."""
    after = _decide(state, seen, limits)
    return after, tuple(_actions(after, seen, limits))


def _decide(state: State, seen: Observation, limits: Limits) -> State:
    if state.name in CLOSING:
        return state
    if seen.stop:
        return _close(state, seen, StateName.STOPPING, Verdict(0, seen.stop))
    if state.name is StateName.SAFE:
        return state
    state = _tick(state, seen, limits)
    verdict = _verdict(state, seen, limits)
    if verdict:
        return _close(state, seen, StateName.FAILED, verdict)
    incident = _incident(state, seen, limits)
    state = _acknowledge(state, seen)
    return _charge(state, seen, limits, incident) if incident else _classify(state, seen, limits)


def _tick(state: State, seen: Observation, limits: Limits) -> State:
    """Run the clocks that the decisions read."""
    settled = state.name not in SERVING and not conditions.ends_missing(seen)
    held = any(role.idle and role.gpu_holder for role in seen.servers)
    stable = state.serving_since is not None and seen.now - state.serving_since >= limits.stable
    return replace(
        state,
        settled=(seen.now if state.settled is None else state.settled) if settled else None,
        held_since=(seen.now if state.held_since is None else state.held_since) if held else None,
        failures=0 if stable else state.failures,
    )


def _verdict(state: State, seen: Observation, limits: Limits) -> Verdict | None:
    """What ends the appliance at once: no restart could help, or the time is up."""
    if seen.gpu_lost:
        return Verdict(70, seen.gpu_lost)
    if seen.fault:
        return seen.fault
    for role in seen.servers:
        if role.complaint and role.complaint.remedy is Remedy.EXIT:
            return Verdict(role.complaint.exit_code, f"{role.name}: {role.complaint.cause}", role.name)
    return None if state.name in SERVING else _overdue(state, seen, limits)


def _overdue(state: State, seen: Observation, limits: Limits) -> Verdict | None:
    """What should have happened by now."""
    holder = next((role.gpu_holder for role in seen.servers if role.gpu_holder), None)
    if holder and state.held_since is not None and seen.now - state.held_since > limits.gpu_wait:
        return Verdict(75, holder)
    if state.name in STARTING and _plugins_overdue(state, seen, limits):
        return Verdict(1, conditions.unproved_plugins(seen))  # no restart mends a plugin that does not fit the engine
    if seen.now - state.down_since <= limits.start_timeout:
        return None
    missing = (*conditions.unmet(seen), *conditions.doubts(seen, limits))
    what, who = (missing[0].text, missing[0].role) if missing else (state.reason, None)
    return Verdict(
        1, f"not READY within {limits.start_timeout:.0f} s (DSV4_START_TIMEOUT): {what}" + _after(state), who
    )


def _plugins_overdue(state: State, seen: Observation, limits: Limits) -> bool:
    late = state.settled is not None and seen.now - state.settled > limits.plugin_timeout
    return bool(seen.missing_proof) and late


def _after(state: State) -> str:
    return f"; recovering from: {state.cause}" if state.cause else ""


def _close(state: State, seen: Observation, name: StateName, verdict: Verdict) -> State:
    down = seen.now if state.name in SERVING else state.down_since
    return replace(
        state, name=name, reason=verdict.cause, since=seen.now, down_since=down, serving_since=None, verdict=verdict
    )


def _incident(state: State, seen: Observation, limits: Limits) -> _Incident | None:
    """The first failure that nothing was done about yet: deaths, fatal lines, stalls, unlike models, the path."""
    dead = _unhandled_deaths(state, seen)
    if dead:
        return _Incident(tuple(role.name for role in dead), "; ".join(f"{role.name} {role.exit}" for role in dead))
    live = [role for role in seen.servers if role.up and (role.name, role.deaths) not in state.condemned]
    for role in live:
        if role.complaint:
            pair = role.complaint.remedy is Remedy.RESTART_PAIR
            names = tuple(server.name for server in seen.servers) if pair else (role.name,)
            return _Incident(names, f"{role.name}: {role.complaint.cause}", role.complaint.exit_code)
    for role in live:
        if seen.now - role.progress > limits.stall_timeout:
            idle = f"no progress for {limits.stall_timeout:.0f} s (DSV4_STALL_TIMEOUT)"
            return _Incident((role.name,), f"{role.name}: {idle}, last seen in {role.detail or role.phase}")
    if state.condemned:
        return None
    return _unlike(live) or _broken_path(state, seen, limits)


def _unlike(live: list[RoleView]) -> _Incident | None:
    """Servers that loaded other files than each other answer, and answer wrong: the older one must load them anew."""
    known = sorted((role for role in live if role.model), key=lambda role: role.started)
    if not known or known[0].model == known[-1].model:
        return None
    old, new = known[0].name, known[-1].name
    return _Incident((old,), f"{old}: the model's files were changed after it was started, and {new} has the new ones")


def _unhandled_deaths(state: State, seen: Observation) -> list[RoleView]:
    handled = dict(state.deaths)
    return [
        role
        for role in seen.roles
        if role.deaths > handled.get(role.name, 0) and (role.name, handled.get(role.name, 0)) not in state.condemned
    ]


def _broken_path(state: State, seen: Observation, limits: Limits) -> _Incident | None:
    """Every process is up and ready, and still nothing is served: router first, then who is sick, then the pair."""
    if state.settled is None:
        return None
    everyone = tuple(role.name for role in seen.servers)
    if _plugins_overdue(state, seen, limits):  # after a recovery: what kept it from proving itself may have passed
        return _Incident(everyone, conditions.unproved_plugins(seen))
    waited = seen.now - state.settled > limits.router_timeout
    if waited and seen.router.ready is not Answer.YES:
        return _Incident((seen.router.name,), f"router: does not list the ready servers ({seen.router.detail})")
    if waited and seen.bootstrap is not Answer.YES:
        return _Incident((seen.servers[0].name,), f"{seen.servers[0].name}: its bootstrap port does not answer")
    if seen.canary.failures < CANARY_STRIKES:
        return None
    sick = tuple(role.name for role in seen.servers if role.health is Answer.NO)
    return _Incident(sick or everyone, f"canary: {seen.canary.failure}")


def _acknowledge(state: State, seen: Observation) -> State:
    """Every exit up to now is dealt with; what was condemned and has died is done."""
    current = {role.name: role.deaths for role in seen.roles}
    return replace(
        state,
        deaths=tuple(current.items()),
        condemned=frozenset(item for item in state.condemned if current.get(item[0]) == item[1]),
    )


def _charge(state: State, seen: Observation, limits: Limits, incident: _Incident) -> State:
    """Spend one restart, or end when none is left."""
    now, paid = seen.now, _paid_already(state, seen, incident)
    charges = tuple(at for at in state.charges if now - at < limits.restart_window)
    charges, failures = (charges, state.failures) if paid else ((*charges, now), state.failures + 1)
    if len(charges) > limits.restart_limit or failures > limits.restart_limit:
        spent = f"{incident.cause}; {limits.restart_limit} restart(s) did not help (DSV4_RESTART_LIMIT)"
        return _close(state, seen, StateName.FAILED, Verdict(incident.exit_code, spent, incident.names[0]))
    condemned = {(role.name, role.deaths) for role in seen.roles if role.name in incident.names and role.up}
    recovering = state.name is StateName.RECOVERING
    return replace(
        state,
        name=StateName.RECOVERING,
        since=state.since if recovering else now,
        down_since=now if state.name in SERVING else state.down_since,
        serving_since=None,
        reason=f"{incident.cause}; restarting {', '.join(incident.names)} ({failures} of {limits.restart_limit})",
        cause=incident.cause,
        charges=charges,
        failures=failures,
        settled=None,
        not_before=now + limits.backoff(failures),
        condemned=state.condemned | condemned,
    )


def _paid_already(state: State, seen: Observation, incident: _Incident) -> bool:
    """Whether the last charge covers this: it came a moment ago, and who failed now was not started since."""
    if not state.charges or seen.now - state.charges[-1] > SAME_INCIDENT:
        return False
    return all(role.started < state.charges[-1] for role in seen.roles if role.name in incident.names)


def _classify(state: State, seen: Observation, limits: Limits) -> State:
    """Name the state that the conditions describe."""
    serving = state.name in SERVING
    unmet = conditions.unmet(seen, condemned=state.condemned)
    doubts = conditions.doubts(seen, limits)
    hard = [item for item in unmet if not (serving and item.silent)]
    hard += [item for item in doubts if item.strikes >= CANARY_STRIKES or not serving]
    if hard:
        name = _starting(seen) if state.name in STARTING else StateName.RECOVERING
        reason = hard[0].text + _after(state)
        down, since = (seen.now if serving else state.down_since), None
    else:
        soft = [*unmet, *doubts]
        name = StateName.DEGRADED if soft else StateName.READY
        reason = soft[0].text if soft else "prefill to decode proved through the router"
        down, since = state.down_since, (state.serving_since if serving else seen.now)
    return replace(
        state,
        name=name,
        reason=reason,
        since=state.since if name is state.name else seen.now,
        down_since=down,
        serving_since=since,
        cause=state.cause if since is None else "",
    )


def _starting(seen: Observation) -> StateName:
    if not any(role.up for role in seen.servers):
        return StateName.BOOTING
    ready = all(role.up and role.ready is Answer.YES for role in seen.servers)
    return StateName.WARMING if ready else StateName.LOADING


# --- actions ---------------------------------------------------------------------------------------------------------


def _actions(state: State, seen: Observation, limits: Limits) -> Iterator[Action]:
    if state.name in CLOSING:
        yield from _closing_actions(state, seen, limits)
    elif state.name is StateName.SAFE:
        yield from (Action(Act.KILL, role.name) for role in seen.servers if role.up)
    else:
        yield from _running_actions(state, seen)


def _running_actions(state: State, seen: Observation) -> Iterator[Action]:
    for role in seen.roles:
        if role.up and (role.name, role.deaths) in state.condemned:
            yield Action(Act.KILL, role.name)
        elif _may_start(role) and seen.now >= state.not_before:
            yield Action(Act.START, role.name)
    if state.settled is not None and seen.router.ready is Answer.NO:
        yield Action(Act.REGISTER, seen.router.name)


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
