"""End what a server holds: the engine's own `POST /abort_request`, which reaches every queue that prefill has."""

from __future__ import annotations

import aiohttp

PAUSE_S = 1.5  # until the same is asked again, while the router may still send requests to one half
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


async def everything(session: aiohttp.ClientSession, url: str) -> None:
    """Abort all requests of one server; their clients get its error. A server that does not answer is left alone."""
    try:
        async with session.post(f"{url}/abort_request", json={"abort_all": True}, timeout=_TIMEOUT):
            pass
    except (aiohttp.ClientError, TimeoutError, OSError):
        pass  # asked again while it may help
