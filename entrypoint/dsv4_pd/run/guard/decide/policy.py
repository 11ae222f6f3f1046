"""What happens next: `next_state(state, observation, limits) -> (state, actions)`, pure and total.

Decisions are made on levels, not on edges: a missed event changes nothing, because the next observation shows the
same world, and every action is repeated until the world shows its effect.
"""

from __future__ import annotations

from dataclasses import replace

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import conditions, incidents, silence
from dsv4_pd.run.guard.decide.actions import actions
from dsv4_pd.run.guard.decide.incidents import Incident
from dsv4_pd.run.guard.decide.states import CANARY_FAILURES, Action, Answer, MemberBudget, Observation, State, Verdict
from dsv4_pd.run.states import CLOSING, SERVING, STARTING, StateName

SAME_INCIDENT = 2.0  # supervisord looks once a second, so what died together is reported one after the other


def next_state(state: State, seen: Observation, limits: Limits) -> tuple[State, tuple[Action, ...]]:
    """The next state, and what to do now."""
    after = _decide(state, seen, limits)
    return after, tuple(actions(after, seen, limits))


def _decide(state: State, seen: Observation, limits: Limits) -> State:
    if state.name in CLOSING:
        return state
    if seen.stop:
        return _close(state, seen, StateName.STOPPING, Verdict(0, seen.stop))
    if state.name is StateName.SAFE:
        return state
    state = _tick(state, seen, limits)
    verdict = incidents.verdict(state, seen, limits)
    if verdict:
        return _close(state, seen, StateName.FAILED, verdict)
    incident = incidents.find(state, seen, limits)
    state = _acknowledge(state, seen)
    if incident and conditions.spared(seen, incident.names, state.condemned):
        return _classify(_charge_members(state, seen, limits, incident), seen, limits)
    return _charge(state, seen, limits, incident) if incident else _classify(state, seen, limits)


def _tick(state: State, seen: Observation, limits: Limits) -> State:
    """Run the clocks that the decisions read."""
    settled = state.name not in SERVING and not conditions.programs_missing(seen)
    held = any(role.idle and role.gpu_holder for role in seen.servers)
    stable = state.serving_since is not None and seen.now - state.serving_since >= limits.stable
    return replace(
        state,
        settled=(seen.now if state.settled is None else state.settled) if settled else None,
        held_since=(seen.now if state.held_since is None else state.held_since) if held else None,
        quiet=silence.run(state.quiet, seen),
        failures=0 if stable else state.failures,
        members=tuple(one for one in state.members if not _recovered(one, seen, limits)),
    )


def _recovered(budget: MemberBudget, seen: Observation, limits: Limits) -> bool:
    """Whether a member has served for so long that its failures are forgotten."""
    return any(
        role.up and role.serving_since is not None and seen.now - role.serving_since >= limits.stable
        for role in seen.servers
        if role.name == budget.name
    )


def _first_cause(state: State) -> str:
    """What began a recovery stands before what is seen of it now."""
    return f"recovering from: {state.cause}; now: " if state.cause else ""


def _close(state: State, seen: Observation, name: StateName, verdict: Verdict) -> State:
    down = seen.now if state.name in SERVING else state.down_since
    return replace(
        state, name=name, reason=verdict.cause, since=seen.now, down_since=down, serving_since=None, verdict=verdict
    )


def _acknowledge(state: State, seen: Observation) -> State:
    """Every exit up to now is dealt with; what was condemned and has died is done."""
    current = {role.name: role.deaths for role in seen.roles}
    return replace(
        state,
        deaths=tuple(current.items()),
        condemned=frozenset(item for item in state.condemned if current.get(item[0]) == item[1]),
    )


def _charge(state: State, seen: Observation, limits: Limits, incident: Incident) -> State:
    """Spend one restart, or end when none is left."""
    now, paid = seen.now, _paid_already(state, seen, incident)
    charges = tuple(at for at in state.charges if now - at < limits.restart_window)
    charges, failures = (charges, state.failures) if paid else ((*charges, now), state.failures + 1)
    if len(charges) > limits.restart_limit or failures > limits.restart_limit:
        spent = f"{incident.cause}; {limits.restart_limit} restart(s) did not help (DSV4_RESTART_LIMIT)"
        spent += f"; it began with: {state.origin}" if state.origin not in ("", incident.cause) else ""
        return _close(state, seen, StateName.FAILED, Verdict(incident.exit_code, spent, incident.names[0]))
    condemned = {(role.name, role.deaths) for role in seen.roles if role.name in incident.names and role.up}
    recovering = state.name is StateName.RECOVERING
    cause = f"{state.cause}; {incident.cause}" if paid and state.cause else incident.cause
    return replace(
        state,
        name=StateName.RECOVERING,
        since=state.since if recovering else now,
        down_since=now if state.name in SERVING else state.down_since,
        serving_since=None,
        reason=f"{cause}; restarting {', '.join(incident.names)} ({failures} of {limits.restart_limit})",
        cause=cause,
        origin=state.origin or cause,
        charges=charges,
        failures=failures,
        settled=None,
        not_before=now + limits.backoff(failures),
        condemned=state.condemned | condemned,
    )


def _charge_members(state: State, seen: Observation, limits: Limits, incident: Incident) -> State:
    """Spend a restart of the failed members' own; the others serve on, and the appliance never ends by it. A member
    whose budget is spent is tried again as often as the window allows.
    """
    failed = [role for role in seen.servers if role.name in incident.names]
    spent = {role.name: _spend(state.budget(role.name), seen.now, limits, incident.cause) for role in failed}
    kept = tuple(one for one in state.members if one.name not in spent)
    condemned = {(role.name, role.deaths) for role in failed if role.up}
    return replace(state, members=(*kept, *spent.values()), condemned=state.condemned | condemned)


def _spend(budget: MemberBudget, now: float, limits: Limits, cause: str) -> MemberBudget:
    charges = (*(at for at in budget.charges if now - at < limits.restart_window), now)
    failures = budget.failures + 1
    spent = len(charges) > limits.restart_limit or failures > limits.restart_limit
    wait = limits.stable if spent else limits.backoff(failures)
    return MemberBudget(budget.name, charges, failures, now + wait, cause)


def _paid_already(state: State, seen: Observation, incident: Incident) -> bool:
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
    hard += [item for item in doubts if item.failures >= CANARY_FAILURES or not serving]
    left = conditions.open_routes(seen, hard) if hard else ()
    partial = (seen.now if state.partial is None else state.partial) if left else None
    if hard and (not left or _waits(state, seen, limits, partial)):
        name = _starting(seen) if state.name in STARTING else StateName.RECOVERING
        reason = _first_cause(state) + hard[0].text
        down, since = (seen.now if serving else state.down_since), None
    else:
        soft = [*hard, *unmet, *doubts]
        name = StateName.DEGRADED if soft else _served(seen, limits)
        reason = _degraded(state, soft[0], left) if soft else _proved(seen, name)
        down, since = state.down_since, (state.serving_since if serving else seen.now)
    return replace(
        state,
        name=name,
        reason=reason,
        since=state.since if name is state.name else seen.now,
        down_since=down,
        serving_since=since,
        partial=partial,
        cause=state.cause if since is None else "",
        origin=state.origin if since is None else "",
    )


def _waits(state: State, seen: Observation, limits: Limits, partial: float | None) -> bool:
    """Whether a start waits for the rest although some could serve: for a while, and not for one that failed."""
    starting = state.name in STARTING and not state.members
    return starting and partial is not None and seen.now - partial <= limits.rest_timeout


def _degraded(state: State, missing: conditions.Missing, left: tuple[tuple[str, ...], ...]) -> str:
    """What is missing first; with several members also what it is for, and who serves meanwhile."""
    if not left:
        return missing.text
    cause = next((one.cause for one in state.members if one.name == missing.role and one.cause), "")
    after = f" (recovering from: {cause})" if cause else ""
    serve = ", ".join(" to ".join(route) for route in left)
    return f"{missing.text}{after}; served by {serve}"


def _served(seen: Observation, limits: Limits) -> StateName:
    """What nothing is missing for. A member can't prove its path alone: it sees what crosses it."""
    proved = seen.canary.proved
    alone = proved is None or seen.now - proved > limits.proof_timeout
    return StateName.JOINABLE if seen.router is None and alone else StateName.READY


def _proved(seen: Observation, name: StateName) -> str:
    if seen.router is None:
        crossed = "no request of a router has crossed it lately" if name is StateName.JOINABLE else "requests cross it"
        return f"{', '.join(role.name for role in seen.servers)} is ready to be joined: {crossed}"
    if seen.paths:
        return f"{len(seen.paths)} paths and the router proved"
    return f"prefill to decode proved through the {'front' if seen.front else 'router'}"


def _starting(seen: Observation) -> StateName:
    if not any(role.up for role in seen.servers):
        return StateName.BOOTING
    ready = all(role.up and role.ready is Answer.YES for role in seen.servers)
    return StateName.WARMING if ready else StateName.LOADING
