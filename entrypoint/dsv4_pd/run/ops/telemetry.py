"""What the ops port serves beyond the state: every program's metrics under one address, and the present load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from dsv4_pd.plan.guard.config import GuardConfig
from dsv4_pd.run.ops import collect
from dsv4_pd.run.ops.live import live
from dsv4_pd.run.states import WAY

Document = dict[str, Any]
_FRESH = 0.8  # seconds: several viewers cost the engines one reading
_RECOUNT = 10.0


class Telemetry:
    """Asks the engines only when somebody asks the ops port."""

    def __init__(
        self, config: GuardConfig, document: Callable[[], Document], client: Callable[[], httpx2.AsyncClient]
    ) -> None:
        self._document, self._client = document, client
        self._targets = {server.name: f"{server.url}/metrics" for server in config.servers}
        if config.router_metrics_url:
            self._targets["router"] = config.router_metrics_url
        if config.front_metrics_url:
            self._targets["front"] = config.front_metrics_url
        self._cache = Path(config.cache_dir) if config.cache_dir else None
        self._texts: dict[str, str | None] = {}
        self._read = self._counted = float("-inf")
        self._compiles: dict[str, int] = {}
        self._turn = asyncio.Lock()

    async def metrics(self) -> str:
        """The text of /metrics."""
        texts = await self._scrape()
        await self._count()
        return collect.exposition(self._document(), texts, self._compiles)

    async def live(self) -> Document:
        """The body of /load."""
        return live(await self._scrape(), time.time())

    async def _scrape(self) -> dict[str, str | None]:
        async with self._turn:
            if time.monotonic() - self._read > _FRESH:
                self._texts = await collect.scrape(self._client(), self._targets)
                self._read = time.monotonic()
            return self._texts

    async def _count(self) -> None:
        """Kernels that were compiled while serving; unknown until every server is ready."""
        moment = ready_since(self._document())
        if self._cache is None or moment is None or time.monotonic() - self._counted < _RECOUNT:
            return
        self._counted = time.monotonic()
        self._compiles = await asyncio.to_thread(collect.compiled_since, self._cache, moment)


def ready_since(document: Document) -> float | None:
    """When the last server became ready and was warmed up, in epoch seconds; None while one is not.

    >>> ready_since({"heartbeat": 100.0, "roles": {"decode": {"elapsed_s": 30.0, "phase_times": {"ready": 20.0}}}})
    90.0
    >>> ready_since({"heartbeat": 100.0, "roles": {"decode": {"elapsed_s": 30.0, "phase_times": {"ready": 20.0},
    ...                                                       "warm_after_s": 26.0}}})
    96.0
    """
    servers = [role for name, role in document.get("roles", {}).items() if name not in WAY]
    moments = [
        document["heartbeat"] - role["elapsed_s"] + after
        for role in servers
        if role.get("elapsed_s") is not None and (after := _serves_after(role)) is not None
    ]
    return max(moments) if servers and len(moments) == len(servers) else None


def _serves_after(role: Document) -> float | None:
    """Seconds from a server's start to when clients may reach it."""
    ready: float | None = (role.get("phase_times") or {}).get("ready")
    warm: float | None = role.get("warm_after_s", ready)
    return None if ready is None or warm is None else max(ready, warm)
