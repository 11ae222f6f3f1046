"""HTTP to our own programs on this host: never through a proxy, whatever the environment says."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

# Every way in which a request can fail; a time-out of the whole is asyncio's own TimeoutError.
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError)
# No request waits for another's connection, and none is kept: a server that was replaced answers on a fresh one.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=0)


def client(headers: Mapping[str, str] | None = None, socket: str | None = None) -> httpx2.AsyncClient:
    """A client without time-outs of its own: httpx bounds single reads, we bound a whole question (`asyncio.timeout`).

    `socket`: the unix socket that every request goes to, whatever its host.
    """
    transport = httpx2.AsyncHTTPTransport(uds=socket, limits=_LIMITS, trust_env=False, verify=False)
    return httpx2.AsyncClient(transport=transport, trust_env=False, timeout=None, headers=dict(headers or {}))


def waiting_client(headers: Mapping[str, str], socket: str, timeout: float) -> httpx2.Client:
    """One for code without a loop; `timeout` in seconds bounds the connection and each read."""
    transport = httpx2.HTTPTransport(uds=socket, limits=_LIMITS, trust_env=False, verify=False)
    return httpx2.Client(transport=transport, trust_env=False, timeout=timeout, headers=dict(headers))
