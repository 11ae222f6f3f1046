"""What READY asks for, and what is missing of it: pure predicates with a text for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dsv4_pd.plan.guard_config import Limits
from dsv4_pd.run.guard.states import Answer, Observation, RoleView


@dataclass(frozen=True, slots=True)
class Missing:
    """One condition that is not met. `silent`: nobody said no, nobody answered in time."""

    text: str
    role: str | None = None
    silent: bool = False
    failures: int = 0  # canaries in a row


def programs_missing(seen: Observation) -> bool:
    """Whether a server is not ready, or the router not running: nothing about the path can be judged yet, and the
    router can't be blamed for what it says of them.
    """
    return not seen.router.up or any(not role.up or role.ready is not Answer.YES for role in seen.servers)


def can_serve(role: RoleView) -> bool:
    """Whether nothing says that it does not serve: it says so itself, or it did and is silent now."""
    return role.up and (role.ready is Answer.YES or (role.ready is Answer.SILENT and role.served))


def unmet(seen: Observation, condemned: frozenset[tuple[str, int]] = frozenset()) -> tuple[Missing, ...]:
    """The conditions of READY that do not hold, most telling first."""
    return (*_servers(seen, condemned), *_router(seen), *_path(seen))


def doubts(seen: Observation, limits: Limits) -> tuple[Missing, ...]:
    """What does not contradict READY yet, but does not fit it either."""
    found = []
    if seen.canary.failures:
        found.append(Missing(f"canary: {seen.canary.failure}", failures=seen.canary.failures))
    if seen.canary.proved is not None and seen.now - seen.canary.proved > limits.proof_timeout:
        found.append(Missing(f"no request has proved the path for {limits.proof_timeout:.0f} s"))
    return (*found, *_unwell(seen))


def _unwell(seen: Observation) -> Iterator[Missing]:
    for role in seen.servers:
        if role.up and role.served and role.health is not Answer.YES:
            yield Missing(f"{role.name}: its own test generation (/health) {_HEARD[role.health]}", role.name)


_HEARD = {Answer.NO: "fails", Answer.SILENT: "is not answered in time"}


def unproved_plugins(seen: Observation) -> str:
    """The cause when plugins that the plan counts on did not prove themselves."""
    listed = ", ".join(seen.missing_proof)
    return f"plugin not live: {listed}; fix it, or start with DSV4_KERNELS=stock"


def _servers(seen: Observation, condemned: frozenset[tuple[str, int]]) -> Iterator[Missing]:
    for role in seen.servers:
        if role.gpu_holder and role.idle:
            yield Missing(f"{role.name}: {role.gpu_holder}", role.name)
        elif not role.up:
            yield Missing(f"{role.name}: not running" + (f" ({role.exit})" if role.exit else ""), role.name)
        elif (role.name, role.deaths) in condemned:
            yield Missing(f"{role.name}: being ended", role.name)
        elif role.ready is not Answer.YES:
            yield _unready(role)


def _unready(role: RoleView) -> Missing:
    silent = role.ready is Answer.SILENT
    what = "does not answer in time" if silent else role.detail or role.phase.value
    return Missing(f"{role.name}: {what}", role.name, silent=silent)


def _router(seen: Observation) -> Iterator[Missing]:
    router = seen.router
    if not router.up:
        yield Missing("router: not running" + (f" ({router.exit})" if router.exit else ""), router.name)
    elif router.ready is not Answer.YES:
        yield _unready(router)


def _path(seen: Observation) -> Iterator[Missing]:
    if seen.bootstrap is not Answer.YES:
        silent = seen.bootstrap is Answer.SILENT
        yield Missing(f"{seen.servers[0].name}: bootstrap port does not answer", seen.servers[0].name, silent=silent)
    if seen.missing_proof:
        yield Missing(unproved_plugins(seen))
    newest = max(role.started for role in seen.roles)
    if seen.canary.sent is None or seen.canary.sent < newest:
        failed = f": {seen.canary.failure}" if seen.canary.failure else ""
        yield Missing(f"canary: no request has come through yet{failed}")
