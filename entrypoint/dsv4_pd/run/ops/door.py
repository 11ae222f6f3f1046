"""Connections of the ops port, counted and timed: many idle or half-sent ones must not keep a probe out.

The guard has one descriptor a connection, and an HTTP server of its own closes neither a connection that sent half a
request nor one of a thousand that send nothing. When the limit is reached, the one that has been idle longest makes
room, so that whoever comes with a request gets in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Middleware

CONNECTIONS = 128
REQUEST_S = 10.0  # from the first byte of a request until it is whole
IDLE_S = 30.0  # between requests
ANSWER_S = 30.0  # for an answer to be made and taken
REQUEST_BYTES = 64 * 1024  # every endpoint is a GET


@dataclass(eq=False, slots=True)
class Caller:
    """One connection. `since`: when it entered its present stage."""

    transport: asyncio.Transport
    since: float = field(default_factory=time.monotonic)
    received: int = 0  # bytes of the request that has not been understood yet
    busy: int = 0  # requests that are being answered

    def overdue(self, now: float) -> bool:
        """Whether it has been in its stage for too long."""
        limit = ANSWER_S if self.busy else REQUEST_S if self.received else IDLE_S
        return now - self.since > limit


class Door:
    """Knows every connection."""

    def __init__(self, limit: int = CONNECTIONS) -> None:
        self._limit = limit
        self._callers: dict[asyncio.BaseTransport, Caller] = {}
        self.turned_away = 0

    def __len__(self) -> int:
        return len(self._callers)

    def enter(self, transport: asyncio.Transport) -> None:
        """A new connection; the one that is idle longest goes when there are too many."""
        if len(self._callers) >= self._limit:
            idle = [caller for caller in self._callers.values() if not caller.busy]
            oldest = min(idle or self._callers.values(), key=lambda caller: caller.since)
            self.turned_away += 1
            self._close(oldest)
        self._callers[transport] = Caller(transport)

    def leave(self, transport: asyncio.BaseTransport | None) -> None:
        """A connection has ended."""
        if transport is not None:
            self._callers.pop(transport, None)

    def receive(self, transport: asyncio.BaseTransport | None, count: int) -> bool:
        """Bytes came; False when they are more than any request of ours has."""
        caller = self._callers.get(transport) if transport else None
        if caller is None:
            return False
        if not caller.received and not caller.busy:
            caller.since = time.monotonic()
        caller.received += count
        if caller.received > REQUEST_BYTES:
            self._close(caller)
            return False
        return True

    def close_overdue(self, now: float) -> None:
        """Close whoever has been too long about it."""
        for caller in [caller for caller in self._callers.values() if caller.overdue(now)]:
            self._close(caller)

    def _close(self, caller: Caller) -> None:
        self._callers.pop(caller.transport, None)
        caller.transport.abort()

    @property
    def middleware(self) -> Middleware:
        """Tells when a request is whole and when it is answered."""

        @web.middleware
        async def count(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            caller = self._callers.get(request.transport) if request.transport else None
            if caller is None:
                return await handler(request)
            caller.busy, caller.received, caller.since = caller.busy + 1, 0, time.monotonic()
            try:
                return await handler(request)
            finally:
                caller.busy, caller.since = caller.busy - 1, time.monotonic()

        return count

    async def watch(self) -> None:
        """Look once a second, for as long as the server runs."""
        while True:
            await asyncio.sleep(1.0)
            self.close_overdue(time.monotonic())

    def guarded(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """A factory of protocols that pass through here."""
        return lambda: _Counted(self, make())


class _Counted(asyncio.Protocol):
    """Passes everything on to the server's own protocol."""

    def __init__(self, door: Door, inner: asyncio.Protocol) -> None:
        self._door, self._inner = door, inner
        self._transport: asyncio.BaseTransport | None = None
        self.pause_writing, self.resume_writing = inner.pause_writing, inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        assert isinstance(transport, asyncio.Transport)
        self._door.enter(transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._door.receive(self._transport, len(data)):
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.leave(self._transport)
        self._inner.connection_lost(exc)
