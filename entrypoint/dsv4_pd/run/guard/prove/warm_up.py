"""READY means compiled: each server runs every class of request once before clients reach it, bounded in time.

The requests go past the router, to a server or to a prefill and a decode, because a router can't be told whom to
choose. Whatever becomes of them, READY does not depend on it: a class that fails is told, and so is a warm-up that was
given up; whether requests come through is the canary's to say.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dsv4_pd.plan.guard.config import GuardConfig, ServerConfig
from dsv4_pd.plan.guard.warm_up import RequestClass, body, classes, few
from dsv4_pd.run import loopback_http
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.decide import silence
from dsv4_pd.run.guard.watch.record import Watch

_LOOK_S = 1.0
_SHOWN = 200  # characters of an answer that refuses
Route = tuple[ServerConfig, ...]
log = logging.getLogger("guard")


@dataclass(slots=True)
class Progress:
    """The warm-up of one server's process. failures: class -> why; `left`: classes that were not run."""

    pid: int
    began: float
    total: int
    done: int = 0
    left: int = 0
    seconds: float | None = None
    failures: dict[str, str] = field(default_factory=dict)


class WarmUp:
    """One sense of the guard's. `on_sent` is told of every request: (its route, how many)."""

    def __init__(
        self,
        config: GuardConfig,
        servers: Mapping[str, Watch],
        probes: Probes,
        on_sent: Callable[[Route, int], None],
    ) -> None:
        self._limits, self._servers, self._probes, self._on_sent = config.limits, servers, probes, on_sent
        self._kinds = asked(config)
        self.routes = cover(config.routes) if self._kinds else ()
        self._under_way: list[Route] = []
        self._progress: dict[str, Progress] = {}
        for watch in servers.values():
            watch.needs_warm_up = bool(self._kinds)

    @property
    def running(self) -> bool:
        """Whether requests of a warm-up are under way."""
        return bool(self._under_way)

    def due(self, route: Route) -> bool:
        """Whether one of its servers is cold."""
        return any(self._servers[server.name].cold for server in route)

    def touches(self, route: Route) -> bool:
        """Whether a warm-up keeps one of these servers busy."""
        return any(server in other for other in self._under_way for server in route)

    def told(self, name: str) -> dict[str, Any] | None:
        """For the published document; None for a program that needs none."""
        found = self._progress.get(name)
        if found is None:
            return None
        return {
            "classes": found.total,
            "done": found.done,
            "failed": dict(found.failures),
            "left": found.left,
            "seconds": found.seconds,
        }

    async def run(self, route: Route, wake: Callable[[], None]) -> None:
        """Every class, one after the other. A server that ends meanwhile stays cold, and its next process is due."""
        cold = [self._servers[server.name] for server in route if self._servers[server.name].cold]
        begun, pids = time.monotonic(), {server.name: self._servers[server.name].pid for server in route}
        for watch in cold:
            self._progress[watch.name] = Progress(watch.pid, begun, len(self._kinds))
        self._under_way.append(route)
        try:
            for number, kind in enumerate(self._kinds):
                self._tell(cold, f"warm-up {number + 1} of {len(self._kinds)}: {kind.name}")
                wake()
                failure = await self._class(route, kind, begun)
                if any(self._servers[name].pid != pid for name, pid in pids.items()):
                    return
                self._note(cold, kind, failure)
                if failure is not None and failure.final:
                    break
            self._end(cold, begun)
        finally:
            self._under_way.remove(route)

    async def _class(self, route: Route, kind: RequestClass, begun: float) -> Failure | None:
        """A class, and once more where it failed beside a compiler.

        A compile may outlast the bounds of a request, and is then done: on an H200 FlashInfer's sampling module took
        83 s, and the link between the halves gave up after 60.
        """
        sent = time.monotonic()
        failure = await self._ask(route, kind, begun)
        if failure and not failure.final and self._compiled(route) > sent:
            log.info("warm-up: %s: %s, beside a compiler; it is sent again", kind.name, failure.text)
            failure = await self._ask(route, kind, begun)
        return failure

    def _compiled(self, route: Route) -> float:
        """When a compiler was last seen in one of these servers."""
        return max(silence.compiled(self._servers[server.name].view(), self._limits) for server in route)

    async def _ask(self, route: Route, kind: RequestClass, begun: float) -> Failure | None:
        """Send a class, and wait for it while there is a sign that it is worked on."""
        self._on_sent(route, kind.count)
        sent = time.monotonic()
        task = asyncio.gather(*(self._send(route, body(kind, number)) for number in range(kind.count)))
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=_LOOK_S)
                if done:
                    text = next(filter(None, task.result()), "")
                    return Failure(text) if text else None
                if why := self._overdue(route, sent, begun):
                    return Failure(why, final=True)
        finally:
            task.cancel()  # the engine ends what its client no longer waits for
            await asyncio.gather(task, return_exceptions=True)

    def _overdue(self, route: Route, sent: float, begun: float) -> str:
        """Why it is not waited for any longer."""
        now, limits = time.monotonic(), self._limits
        if now - begun > limits.warm_up_timeout:
            return f"the warm-up took more than {limits.warm_up_timeout:.0f} s"
        if now - max(sent, self._compiled(route)) > limits.warm_up_silence:
            return f"no answer within {limits.warm_up_silence:.0f} s, and no compiler runs"
        return ""

    async def _send(self, route: Route, ask: dict[str, Any]) -> str:
        """One request; blank, or what was answered instead."""
        if len(route) > 1:
            room = secrets.randbits(62)
            ask |= {"bootstrap_host": route[0].host, "bootstrap_port": route[0].bootstrap_port, "bootstrap_room": room}
        try:
            answers = await asyncio.gather(
                *(self._probes.client.post(f"{server.url}/generate", json=ask) for server in route)
            )
        except loopback_http.FAILURES as error:
            return type(error).__name__
        wrong = (
            f"{server.name} answered {got.status_code}: {got.text[:_SHOWN]}"
            for server, got in zip(route, answers, strict=True)
            if got.status_code != 200
        )
        return next(wrong, "")

    def _tell(self, cold: list[Watch], text: str) -> None:
        for watch in cold:
            watch.warming = text

    def _note(self, cold: list[Watch], kind: RequestClass, failure: Failure | None) -> None:
        for watch in cold:
            self._progress[watch.name].done += failure is None
            if failure:
                self._progress[watch.name].failures[kind.name] = failure.text
        if failure:
            names = ", ".join(watch.name for watch in cold)
            log.warning("%s: warm-up: %s: %s", names, kind.name, failure.text)

    def _end(self, cold: list[Watch], begun: float) -> None:
        now = time.monotonic()
        for watch in cold:
            found = self._progress[watch.name]
            found.left = found.total - found.done - len(found.failures)
            found.seconds = round(now - begun, 3)
            watch.on_warm(watch.pid, now)
            told = f", {len(found.failures)} failed" if found.failures else ""
            told += f", {found.left} left out: their first clients may wait for a compiler" if found.left else ""
            log.info("%s: warm-up: %d classes of requests in %.1f s%s", watch.name, found.done, found.seconds, told)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a class did not come through. final: the rest is not tried either."""

    text: str
    final: bool = False


def asked(config: GuardConfig) -> tuple[RequestClass, ...]:
    """The classes for this appliance."""
    sizes = config.about.get("sizes")
    if config.warm_up == "off" or not sizes:
        return ()
    if config.warm_up == "few":
        return few(sizes["context"], sizes["running"])
    return classes(sizes["chunk"], sizes["context"], sizes["running"])


def cover(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """As few routes as there must be for every server to be in one.

    >>> a, b, c, d, e = (ServerConfig(name, "", "") for name in "abcde")
    >>> [[one.name for one in route] for route in cover(((a, d), (a, e), (b, d), (b, e), (c, d), (c, e)))]
    [['a', 'd'], ['b', 'e'], ['c', 'd']]
    """
    first, last = (list(dict.fromkeys(route[end] for route in routes)) for end in (0, -1))
    if any(len(route) == 1 for route in routes):
        return routes
    count = max(len(first), len(last))
    return tuple((first[at % len(first)], last[at % len(last)]) for at in range(count))
