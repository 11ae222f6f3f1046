"""The ops port: the state over HTTP. Body and status code come from the same value, so they always agree."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from dsv4_pd.guard.states import CLOSING, SERVING

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


def metrics_of(document: Document) -> str:
    """The state as Prometheus text."""
    lines = [
        "# TYPE dsv4_state gauge",
        f'dsv4_state{{state="{document.get("state")}"}} 1',
        "# TYPE dsv4_ready gauge",
        f"dsv4_ready {int(document.get('state') in SERVING)}",
        "# TYPE dsv4_role_ready gauge",
    ]
    roles = document.get("roles", {})
    lines += [f'dsv4_role_ready{{role="{name}"}} {int(role["ready"])}' for name, role in roles.items()]
    lines.append("# TYPE dsv4_role_restarts_total counter")
    lines += [f'dsv4_role_restarts_total{{role="{name}"}} {role["restarts"]}' for name, role in roles.items()]
    canary = document.get("canary", {})
    if canary.get("seconds") is not None:
        lines += ["# TYPE dsv4_canary_seconds gauge", f"dsv4_canary_seconds {canary['seconds']}"]
    lines += ["# TYPE dsv4_canary_failures gauge", f"dsv4_canary_failures {canary.get('failures', 0)}"]
    return "\n".join(lines) + "\n"


def application(document: Callable[[], Document]) -> web.Application:
    """The endpoints over whatever `document()` returns."""

    async def ready(_: web.Request) -> web.Response:
        status, body = ready_of(document())
        return web.json_response(body, status=status)

    async def live(_: web.Request) -> web.Response:
        status, body = live_of(document(), time.monotonic())
        return web.json_response(body, status=status)

    async def status(_: web.Request) -> web.Response:
        return web.json_response(document())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=metrics_of(document()), content_type="text/plain")

    app = web.Application()
    for path in ("/readyz", "/v1/health/ready", "/health"):
        app.router.add_get(path, ready)
    for path in ("/livez", "/v1/health/live"):
        app.router.add_get(path, live)
    app.router.add_get("/status", status)
    app.router.add_get("/metrics", metrics)
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Listen; raises OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port, reuse_address=True).start()
    return runner
