"""What READY asks for, and what is missing of it: pure predicates with a text for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide.states import Answer, CanaryView, Observation, RoleView


@dataclass(frozen=True, slots=True)
class Missing:
    """One condition that is not met. `silent`: nobody said no, nobody answered in time."""

    text: str
    role: str | None = None
    silent: bool = False
    failures: int = 0  # canaries in a row
    takes: tuple[str, ...] = ()  # the members that serve nothing without it; none: nobody does


def programs_missing(seen: Observation) -> bool:
    """Whether a server is not ready, the router not running, or the front not there: nothing about the path can be
    judged yet, and the router can't be blamed for what it says of them.
    """
    ready = {role.name for role in seen.servers if role.up and role.ready is Answer.YES}
    shut = seen.front is not None and not can_serve(seen.front)
    down = seen.router is not None and not seen.router.up
    return shut or down or not any(ready.issuperset(route) for route in seen.routes)


def open_routes(seen: Observation, missing: Iterable[Missing]) -> tuple[tuple[str, ...], ...]:
    """The routes that nothing of this takes away."""
    taken = [set(item.takes) for item in missing]
    return tuple(route for route in seen.routes if not any(members.issubset(route) for members in taken))


def spared(seen: Observation, names: Iterable[str], condemned: frozenset[tuple[str, int]] = frozenset()) -> bool:
    """Whether the failure of these servers leaves a route: one that needs none of them and is up."""
    failed = set(names)
    living = {role.name for role in seen.servers if role.up and (role.name, role.deaths) not in condemned} - failed
    servers = {role.name for role in seen.servers}
    return failed <= servers and any(living.issuperset(route) for route in seen.routes)


def proved_since(seen: Observation, members: tuple[str, ...] = ()) -> float:
    """When a canary must have been sent to prove these members' route, or without members the router's way: after the
    youngest of its programs was started. Any of several routes proves the router.
    """
    if members:
        return max(role.started for role in seen.servers if role.name in members)
    if not seen.paths:
        return max(role.started for role in seen.roles)
    first = min((role.started for role in seen.servers if role.up), default=0.0)
    return max(first, *(role.started for role in seen.way))


def can_serve(role: RoleView) -> bool:
    """Whether nothing says that it does not serve: it says so itself, or it did and is silent now."""
    return role.up and (role.ready is Answer.YES or (role.ready is Answer.SILENT and role.served))


def unmet(seen: Observation, condemned: frozenset[tuple[str, int]] = frozenset()) -> tuple[Missing, ...]:
    """The conditions of READY that do not hold, most telling first."""
    return (*before_warm_up(seen, condemned), *_cold(seen))


def before_warm_up(seen: Observation, condemned: frozenset[tuple[str, int]] = frozenset()) -> tuple[Missing, ...]:
    """Those that a warm-up waits for: it goes along paths that are known to work."""
    return (*_servers(seen, condemned), *_front(seen), *_router(seen), *_path(seen))


def doubts(seen: Observation, limits: Limits) -> tuple[Missing, ...]:
    """What does not contradict READY yet, but does not fit it either."""
    found = [*_doubted(seen.canary, (), "path", seen.now, limits)] if seen.router else []
    for path in seen.paths:
        found += _doubted(path.canary, path.members, f"path {' to '.join(path.members)}", seen.now, limits)
    return (*found, *_unwell(seen))


def _doubted(canary: CanaryView, members: tuple[str, ...], path: str, now: float, limits: Limits) -> Iterator[Missing]:
    if canary.failures:
        yield Missing(f"canary: {canary.failure}", failures=canary.failures, takes=members)
    if canary.proved is not None and now - canary.proved > limits.proof_timeout:
        yield Missing(f"no request has proved the {path} for {limits.proof_timeout:.0f} s", takes=members)


def _unwell(seen: Observation) -> Iterator[Missing]:
    for role in seen.servers:
        if role.up and role.served and role.health is not Answer.YES:
            yield Missing(
                f"{role.name}: its own test generation (/health) {_HEARD[role.health]}", role.name, takes=(role.name,)
            )


_HEARD = {Answer.NO: "fails", Answer.SILENT: "is not answered in time"}


def unproved_plugins(seen: Observation) -> str:
    """The cause when plugins that the plan counts on did not prove themselves."""
    return not_live(seen.missing_proof)


def not_live(plugins: Iterable[str]) -> str:
    """The cause for some of them, each a plugin's name and what is missing, and what there is to do."""
    texts = tuple(plugins)
    names = dict.fromkeys(text.partition(" ")[0] for text in texts)
    advice = [_ADVICE.get(name, f"{name} {_BELONGS}") for name in names]
    return f"plugin not live: {', '.join(texts)}; {'; '.join(advice)}"


_ADVICE = {"dsv4-kernels": "DSV4_KERNELS=stock starts without our kernels"}  # the one that a setting leaves out
_BELONGS = "can't be left out: unset SGLANG_PLUGINS and PYTHONPATH, and use the image's own engine"


def _servers(seen: Observation, condemned: frozenset[tuple[str, int]]) -> Iterator[Missing]:
    for role in seen.servers:
        if role.gpu_holder and role.idle:
            yield Missing(f"{role.name}: {role.gpu_holder}", role.name, takes=(role.name,))
        elif role.barred:
            yield Missing(f"{role.name}: {role.barred}", role.name, takes=(role.name,))
        elif not role.up:
            how = f" ({role.exit})" if role.exit else ""
            yield Missing(f"{role.name}: not running{how}", role.name, takes=(role.name,))
        elif (role.name, role.deaths) in condemned:
            yield Missing(f"{role.name}: being ended", role.name, takes=(role.name,))
        elif role.ready is not Answer.YES:
            yield _unready(role, (role.name,))


def _unready(role: RoleView, takes: tuple[str, ...]) -> Missing:
    silent = role.ready is Answer.SILENT
    what = "does not answer in time" if silent else role.detail or role.phase.value
    return Missing(f"{role.name}: {what}", role.name, silent=silent, takes=takes)


def _front(seen: Observation) -> Iterator[Missing]:
    if seen.front is None:
        return
    if not seen.front.up:
        yield Missing("front: not running" + (f" ({seen.front.exit})" if seen.front.exit else ""), seen.front.name)
    elif seen.front.ready is not Answer.YES:
        yield _unready(seen.front, ())


def _router(seen: Observation) -> Iterator[Missing]:
    router = seen.router
    if router is None:
        return
    if not router.up:
        yield Missing("router: not running" + (f" ({router.exit})" if router.exit else ""), router.name)
    elif router.ready is not Answer.YES:
        yield _unready(router, ())
    for role in seen.servers:
        if role.up and role.ready is Answer.YES and role.unlisted:
            yield Missing(f"{role.name}: the router gives it no requests", role.name, takes=(role.name,))


def _path(seen: Observation) -> Iterator[Missing]:
    for role in seen.servers:
        if role.bootstrap is not Answer.YES:
            silent = role.bootstrap is Answer.SILENT
            what = f"{role.name}: bootstrap port does not answer"
            yield Missing(what, role.name, silent=silent, takes=(role.name,))
    if seen.missing_proof and not seen.paths:
        yield Missing(unproved_plugins(seen))
    for role in seen.servers if seen.paths else ():
        if role.unproved:
            yield Missing(not_live(role.unproved), role.name, takes=(role.name,))
    if seen.router is not None:
        yield from _unproved(seen, seen.canary, (), "")
    for path in seen.paths:
        yield from _unproved(seen, path.canary, path.members, f" from {' to '.join(path.members)}")


def _cold(seen: Observation) -> Iterator[Missing]:
    for role in seen.servers:
        if role.up and role.ready is not Answer.NO and role.cold:
            yield Missing(f"{role.name}: {role.detail}", role.name, takes=(role.name,))


def _unproved(seen: Observation, canary: CanaryView, members: tuple[str, ...], way: str) -> Iterator[Missing]:
    if canary.sent is None or canary.sent < proved_since(seen, members):
        failed = f": {canary.failure}" if canary.failure else ""
        yield Missing(f"canary: no request has come through{way} yet{failed}", takes=members)
