"""The router's own list of workers against ours, pure. Nobody but the guard may change it, and it may hold nobody else.

A worker that is not ours would read prompts and keys of clients, and answer in our name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dsv4_pd.plan.guard.config import ServerConfig

_KINDS = {"prefill": "prefill", "decode": "decode"}  # by role; whoever does both is "regular"


@dataclass(frozen=True, slots=True)
class Listed:
    """One worker as the router lists it. `leaving`: it gets no new requests and disappears by itself (smg)."""

    id: str
    url: str
    kind: str  # "prefill", "decode", "regular"
    bootstrap_port: int | None = None
    healthy: bool = True
    leaving: bool = False


def kind(server: ServerConfig) -> str:
    """What a server is to the router."""
    return _KINDS.get(server.does, "regular")


def entry(server: ServerConfig, api_key: str | None) -> dict[str, Any]:
    """The body that registers a server. With its key, because the router asks it for what clients may not see."""
    worker: dict[str, Any] = {"url": server.url, "worker_type": kind(server), "api_key": api_key}
    return worker | ({"bootstrap_port": server.bootstrap_port} if server.bootstrap_port else {})


def parse(text: str) -> tuple[Listed, ...]:
    """The body of GET /workers, as sglang-router and smg write it; empty for anything else.

    >>> parse('{"workers": [{"id": "7", "url": "http://h", "worker_type": "decode", "status": "draining"}]}')
    (Listed(id='7', url='http://h', kind='decode', bootstrap_port=None, healthy=False, leaving=True),)
    """
    try:
        found = json.loads(text)["workers"]
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(_listed(item) for item in found if isinstance(item, dict)) if isinstance(found, list) else ()


def _listed(item: dict[str, Any]) -> Listed:
    leaving = item.get("status") == "draining"
    return Listed(
        id=str(item.get("id")),
        url=str(item.get("url")),
        kind=str(item.get("worker_type")),
        bootstrap_port=item.get("bootstrap_port"),
        healthy=bool(item.get("is_healthy")) and not leaving,
        leaving=leaving,
    )


def is_ours(one: Listed, servers: tuple[ServerConfig, ...]) -> bool:
    """Whether it is one of our servers in its own role: decode listed as a second prefill is foreign too."""
    return any((one.url, one.kind, one.bootstrap_port) == (s.url, kind(s), s.bootstrap_port) for s in servers)


def foreign(found: tuple[Listed, ...], servers: tuple[ServerConfig, ...]) -> tuple[Listed, ...]:
    """Listed, not ours, and not on their way out."""
    return tuple(one for one in found if not one.leaving and not is_ours(one, servers))


def absent(found: tuple[Listed, ...], servers: tuple[ServerConfig, ...]) -> tuple[ServerConfig, ...]:
    """Ours that the router would give no request; one that is leaving is registered again once it has left."""
    there = {one.url for one in found if is_ours(one, servers) and not one.leaving}
    return tuple(server for server in servers if server.url not in there)


def unhealthy(found: tuple[Listed, ...], servers: tuple[ServerConfig, ...]) -> tuple[str, ...]:
    """The names of ours that the router gives no requests."""
    healthy = {one.url for one in found if one.healthy and is_ours(one, servers)}
    return tuple(server.name for server in servers if server.url not in healthy)


def mismatch(found: tuple[Listed, ...], servers: tuple[ServerConfig, ...]) -> str:
    """What is wrong with the list, for people; empty when it holds exactly our servers, all healthy."""
    if strange := foreign(found, servers):
        return f"lists {strange[0].kind} worker(s) that are not ours: {', '.join(one.url for one in strange)}"
    healthy = {one.url for one in found if one.healthy and is_ours(one, servers)}
    return "" if len(healthy) == len(servers) else f"{len(healthy)} of {len(servers)} workers healthy"
