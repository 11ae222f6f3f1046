"""The ops port: the state over HTTP. Body and status code come from the same value, so they always agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from dsv4_pd.run.ops import page
from dsv4_pd.run.ops.exposition import CONTENT_TYPE
from dsv4_pd.run.ops.telemetry import Telemetry
from dsv4_pd.run.states import CLOSING, SERVING

Document = dict[str, Any]
STALE = 5.0  # seconds without a heartbeat


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


def application(document: Callable[[], Document], telemetry: Telemetry, about: Mapping[str, Any]) -> web.Application:
    """The endpoints over whatever `document()` returns."""

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

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=(await telemetry.metrics()).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def front(_: web.Request) -> web.Response:
        return web.Response(text=page.html(), content_type="text/html", headers=page.HEADERS)

    app = web.Application()
    for path in ("/readyz", "/v1/health/ready", "/health"):
        app.router.add_get(path, ready)
    for path in ("/livez", "/v1/health/live"):
        app.router.add_get(path, live)
    app.router.add_get("/status", status)
    app.router.add_get("/live", load)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/", front)
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Listen; raises OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port, reuse_address=True).start()
    return runner
