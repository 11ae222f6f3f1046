"""What went wrong: the first failure that nothing was done about yet, and what no restart can help. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import complaints, conditions, silence
from dsv4_pd.run.guard.decide.states import CANARY_FAILURES, Answer, Observation, Remedy, RoleView, State, Verdict
from dsv4_pd.run.states import SERVING, STARTING


@dataclass(frozen=True, slots=True)
class Incident:
    """A failure that costs one restart of the budget: who is restarted, why, the exit code if the budget is spent."""

    names: tuple[str, ...]
    cause: str
    exit_code: int = 1


def verdict(state: State, seen: Observation, limits: Limits) -> Verdict | None:
    """What ends the appliance at once: no restart could help, or the time is up."""
    if seen.gpu_lost:
        return Verdict(70, seen.gpu_lost)
    if seen.fault:
        return seen.fault
    for role in seen.servers:
        needed = not conditions.spared(seen, [role.name], state.condemned)
        if role.gpu_fault and needed and not conditions.can_serve(role):
            return Verdict(70, f"{role.name}: {role.gpu_fault}", role.name)
        said = complaints.deciding(role)
        if said and said.remedy is Remedy.EXIT and needed:
            return Verdict(said.exit_code, f"{role.name}: {said.cause}", role.name)
    return None if state.name in SERVING else _overdue(state, seen, limits)


def _overdue(state: State, seen: Observation, limits: Limits) -> Verdict | None:
    """What should have happened by now."""
    needed = (role for role in seen.servers if not conditions.spared(seen, [role.name], state.condemned))
    holder = next((role.gpu_holder for role in needed if role.gpu_holder), None)
    if holder and state.held_since is not None and seen.now - state.held_since > limits.gpu_wait:
        return Verdict(75, holder)
    if state.name in STARTING and _plugins_overdue(state, seen, limits):
        return Verdict(1, conditions.unproved_plugins(seen))  # no restart fixes a plugin that does not fit the engine
    if seen.now - state.down_since <= limits.start_timeout:
        return None
    missing = (*conditions.unmet(seen), *conditions.doubts(seen, limits))
    what, who = (missing[0].text, missing[0].role) if missing else (state.reason, None)
    return Verdict(
        1, f"not READY within {limits.start_timeout:.0f} s (DSV4_START_TIMEOUT): {what}" + _after(state), who
    )


def _plugins_overdue(state: State, seen: Observation, limits: Limits) -> bool:
    late = state.settled is not None and seen.now - state.settled > limits.plugin_timeout
    doubted = [role.name for role in seen.servers if role.unproved]
    return bool(doubted) and late and not conditions.spared(seen, doubted, state.condemned)


def _after(state: State) -> str:
    return f"; recovering from: {state.cause}" if state.cause else ""


def find(state: State, seen: Observation, limits: Limits) -> Incident | None:
    """The first failure that nothing was done about yet: ends, fatal lines, silences, stalls, models, the path."""
    dead = _unhandled_deaths(state, seen)
    if dead:
        return Incident(
            tuple(role.name for role in dead), "; ".join(_end_of(role) for role in dead), _exit_code(dead[0])
        )
    live = [role for role in seen.here if role.up and (role.name, role.deaths) not in state.condemned]
    for role in live:
        if role.lost:
            return Incident((role.name,), _end_of(role))
        if found := _said(role, seen, limits):
            return found
    for name, cause in silence.overdue(state.quiet, seen, limits):
        if (name, _deaths_of(seen, name)) not in state.condemned:
            return Incident((name,), cause)
    for role in live:
        if not role.served and seen.now - max(role.progress, silence.last_work(role, limits)) > limits.stall_timeout:
            idle = f"no progress for {limits.stall_timeout:.0f} s (DSV4_STALL_TIMEOUT)"
            return Incident((role.name,), f"{role.name}: {idle}, last seen in {role.detail or role.phase}")
    if state.condemned:
        return None
    return _unlike(live) or _broken_member(seen) or _broken_path(state, seen, limits)


def _end_of(role: RoleView) -> str:
    """How a program ended, by what ended first: the child that the others can't do without, and its own last words."""
    how = f"{role.name}: {role.lost}" if role.lost else f"{role.name} {role.exit}"
    return how + complaints.explanation(role, role.ended)


def _exit_code(role: RoleView) -> int:
    """Of a program that ended; a line that it logged while clients could reach it has no say."""
    said = complaints.deciding(role)
    return said.exit_code if said else 1


def _said(role: RoleView, seen: Observation, limits: Limits) -> Incident | None:
    """What a fatal line leads to."""
    if said := complaints.deciding(role):
        pair = said.remedy is Remedy.RESTART_PAIR
        names = _partners(role.name, seen) if pair else (role.name,)
        return Incident(names, f"{role.name}: {said.cause}", said.exit_code)
    if said := complaints.borne_out(role, seen, limits):
        return Incident((role.name,), f"{role.name}: /ready says no ({said.cause})")
    return None


def _deaths_of(seen: Observation, name: str) -> int:
    return next(role.deaths for role in seen.roles if role.name == name)


def _partners(name: str, seen: Observation) -> tuple[str, ...]:
    """A server and all that it serves with."""
    together = {member for route in seen.routes if name in route for member in route}
    return tuple(role.name for role in seen.servers if role.name in together)


def _broken_member(seen: Observation) -> Incident | None:
    """Among several routes: whoever all the failing ones have in common, and no sound one has. Where that is nobody, a
    single link is broken, and the server that answers is restarted.
    """
    failing = [path for path in seen.paths if path.canary.failures >= CANARY_FAILURES]
    if not failing:
        return None
    sound = {name for path in seen.paths if path not in failing for name in path.members}
    guilty = {name for path in failing for name in path.members if name not in sound} or {failing[0].members[-1]}
    sick = {role.name for role in seen.servers if role.name in guilty and role.health is Answer.NO}
    names = tuple(role.name for role in seen.here if role.name in (sick or guilty))
    return Incident(names, f"canary: {failing[0].canary.failure}") if names else None


def _unlike(live: list[RoleView]) -> Incident | None:
    """Servers that loaded other files than each other answer, and answer wrong: the older one must reload them."""
    known = sorted((role for role in live if role.model), key=lambda role: role.started)
    if not known or known[0].model == known[-1].model:
        return None
    old, new = known[0].name, known[-1].name
    return Incident((old,), f"{old}: the model's files were changed after it was started, and {new} has the new ones")


def _unhandled_deaths(state: State, seen: Observation) -> list[RoleView]:
    handled = dict(state.deaths)
    return [
        role
        for role in seen.roles
        if not role.remote
        and role.deaths > handled.get(role.name, 0)
        and (role.name, handled.get(role.name, 0)) not in state.condemned
    ]


def _broken_path(state: State, seen: Observation, limits: Limits) -> Incident | None:
    """Every process is up and ready, yet nothing is served: router first, then the failing server, then the pair."""
    if state.settled is None:
        return None
    everyone = tuple(role.name for role in seen.here)
    if _plugins_overdue(state, seen, limits):  # after a recovery: what kept it from proving itself may have passed
        return Incident(everyone, conditions.unproved_plugins(seen))
    waited = seen.now - state.settled > limits.router_timeout
    if waited and seen.router and seen.router.ready is not Answer.YES:
        return Incident((seen.router.name,), f"router: does not list the ready servers ({seen.router.detail})")
    for role in seen.here:
        if waited and role.bootstrap is not Answer.YES and (role.up or not seen.paths):
            return Incident((role.name,), f"{role.name}: its bootstrap port does not answer")
    if seen.canary.failures < CANARY_FAILURES or seen.paths:
        return None
    if not everyone:
        return None  # members on other hosts: their own guards restart them
    failing = tuple(role.name for role in seen.servers if role.health is Answer.NO)
    logged = "".join(f"; {role.name} logged" + text for role in seen.servers if (text := _logged(role, seen)))
    return Incident(failing or everyone, f"canary: {seen.canary.failure}{logged}")


def _logged(role: RoleView, seen: Observation) -> str:
    return complaints.explanation(role, seen.now) if role.served else ""
