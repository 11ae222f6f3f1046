"""How verify, bench and status connect: straight to this machine; elsewhere as the environment's proxies say."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from dsv4_pd.host.loopback import is_loopback

# Every way in which a request can fail.
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError)


def client(url: str, timeout: float, headers: Mapping[str, str] | None = None) -> httpx2.Client:
    """A client for one address; `timeout` in seconds bounds the connection and each read, not a whole stream."""
    away = not is_loopback(host_of(url))
    return httpx2.Client(trust_env=away, verify=away, timeout=timeout, headers=dict(headers or {}))


def host_of(url: str) -> str:
    """The host of a URL; empty for what is none.

    >>> host_of("http://[::1]:8001/status"), host_of("box:8001")
    ('::1', '')
    """
    try:
        return httpx2.URL(url).host
    except httpx2.InvalidURL:
        return ""
