"""Cross-origin requests: which pages in a browser may use the API. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

ANY = "*"
METHODS = "GET, POST, OPTIONS"
EXPOSED = "x-request-id, request-id, retry-after"
# A wildcard does not cover Authorization (Fetch standard, section 3.3), so what was asked for is repeated.
DEFAULT_HEADERS = "authorization, content-type, x-api-key, x-request-id, anthropic-version, anthropic-beta"
MAX_AGE_S = 600


def headers(origin: str | None, allowed: Collection[str]) -> dict[str, str]:
    """What an answer to this origin carries; empty where it is not allowed, and the browser keeps the answer back.

    >>> headers("http://a", {"http://a"})["Access-Control-Allow-Origin"], headers("http://b", {"http://a"})
    ('http://a', {'Vary': 'Origin'})
    """
    if not allowed or origin is None:
        return {}
    if ANY not in allowed and origin not in allowed:
        return {"Vary": "Origin"}
    allow = ANY if ANY in allowed else origin
    found = {"Access-Control-Allow-Origin": allow, "Access-Control-Expose-Headers": EXPOSED}
    return found if allow == ANY else {**found, "Vary": "Origin"}


def preflight(asked: Mapping[str, str], allowed: Collection[str]) -> dict[str, str] | None:
    """The headers of the answer to OPTIONS; None where it is no preflight, or not of an allowed origin."""
    origin = asked.get("Origin")
    if origin is None or "Access-Control-Request-Method" not in asked:
        return None
    found = headers(origin, allowed)
    if "Access-Control-Allow-Origin" not in found:
        return None
    wanted = asked.get("Access-Control-Request-Headers") or DEFAULT_HEADERS
    return {
        **found,
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": wanted,
        "Access-Control-Max-Age": str(MAX_AGE_S),
        "Vary": "Origin, Access-Control-Request-Headers",
    }
