"""The ops port: the state over HTTP. Body and status code come from the same value, so they always agree."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from aiohttp import web

from dsv4_pd.host.listening import open_socket
from dsv4_pd.run.ops import page
from dsv4_pd.run.ops.door import Door
from dsv4_pd.run.ops.exposition import CONTENT_TYPE
from dsv4_pd.run.ops.hosts import answers_to, own_names
from dsv4_pd.run.states import CLOSING, SERVING
from dsv4_pd.settings.deprecated import LIVE

log = logging.getLogger(__name__)
Document = dict[str, Any]
STALE = 5.0  # seconds without a heartbeat
# What probes and scrapers ask, by whatever name they know us; it tells nothing that a stranger's page could use.
ANY_NAME = frozenset({"/readyz", "/livez", "/health", "/v1/health/ready", "/v1/health/live", "/metrics"})
DOOR = web.AppKey("door", Door)


class Telling(Protocol):
    """What the port tells beyond the state."""

    async def metrics(self) -> str:
        """The text of /metrics."""

    async def live(self) -> Document:
        """The body of /load."""


def ready_of(document: Document) -> tuple[int, Document]:
    """Status and body of readiness: 200 exactly while requests are served.

    >>> ready_of({"state": "LOADING", "reason": "decode: weights 42 %"})
    (503, {'ready': False, 'state': 'LOADING', 'reason': 'decode: weights 42 %'})
    """
    ready = document.get("state") in SERVING
    return (200 if ready else 503), {"ready": ready, "state": document.get("state"), "reason": document.get("reason")}


def live_of(document: Document, now: float) -> tuple[int, Document]:
    """Status and body of liveness: only a guard that is stuck, or an appliance that is ending, is not live."""
    age = now - document.get("heartbeat_monotonic", now)
    live = document.get("state") not in CLOSING and age <= STALE
    reason = document.get("reason") if age <= STALE else f"the guard has been silent for {age:.0f} s"
    return (200 if live else 503), {"live": live, "state": document.get("state"), "reason": reason}


def application(
    document: Callable[[], Document], telemetry: Telling, about: Mapping[str, Any], listens_on: str = ""
) -> web.Application:
    """The endpoints over whatever `document()` returns."""
    own = own_names(listens_on)
    door = Door()

    @web.middleware
    async def host(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        named = request.headers.get("Host")
        if request.path in ANY_NAME or answers_to(named, own):
            return await handler(request)
        text = (
            f"Host: found {named!r}, expected an IP address, a name without a dot, or this machine's own name; "
            "ask by one of these, or let the proxy in front send one\n"
        )
        return web.Response(status=421, text=text)

    async def ready(_: web.Request) -> web.Response:
        status, body = ready_of(document())
        return web.json_response(body, status=status)

    async def live(_: web.Request) -> web.Response:
        status, body = live_of(document(), time.monotonic())
        return web.json_response(body, status=status)

    async def status(_: web.Request) -> web.Response:
        return web.json_response({**document(), "about": about})

    async def load(_: web.Request) -> web.Response:
        return web.json_response(await telemetry.live())

    @functools.cache
    def warn() -> None:
        log.warning("the ops port was asked for a name that will go: %s", LIVE.told())

    async def deprecated_load(request: web.Request) -> web.Response:
        warn()
        answer = await load(request)
        answer.headers["Link"] = '</load>; rel="successor-version"'
        return answer

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=(await telemetry.metrics()).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def front(_: web.Request) -> web.Response:
        return web.Response(text=page.html(), content_type="text/html", headers=page.HEADERS)

    app = web.Application(middlewares=[door.middleware, host])
    app[DOOR] = door
    for path in ("/readyz", "/v1/health/ready", "/health"):
        app.router.add_get(path, ready)
    for path in ("/livez", "/v1/health/live"):
        app.router.add_get(path, live)
    app.router.add_get("/status", status)
    app.router.add_get("/load", load)
    app.router.add_get("/live", deprecated_load)  # the old name, which reads like liveness
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/", front)
    return app


async def serve(app: web.Application, host: str, port: int) -> None:
    """Listen until cancelled; raises OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    server, door = runner.server, app[DOOR]
    assert server is not None
    loop = asyncio.get_running_loop()
    opened = open_socket(host or "0.0.0.0", port)
    listening = await loop.create_server(door.guarded(server), sock=opened, backlog=128)
    try:
        await door.watch()
    finally:
        listening.close()
        await runner.cleanup()
