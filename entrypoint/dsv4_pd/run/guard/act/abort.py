"""End what a server holds: the engine's own `POST /abort_request`, which reaches every queue that prefill has."""

from __future__ import annotations

import asyncio

import httpx2

from dsv4_pd.run import loopback_http

PAUSE_S = 1.5  # until the same is asked again, while the router may still send requests to one server
_BOUND_S = 2.0


async def everything(client: httpx2.AsyncClient, url: str) -> None:
    """Abort all requests of one server; their clients get its error. A server that does not answer is left alone."""
    try:
        async with asyncio.timeout(_BOUND_S):
            await client.post(f"{url}/abort_request", json={"abort_all": True})
    except (*loopback_http.FAILURES, TimeoutError):
        pass  # asked again while it may help
