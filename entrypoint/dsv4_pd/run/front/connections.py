"""Connections of the front, counted and timed, and the polite word for one too many.

An HTTP server of its own closes neither a connection that sent half a request nor one of ten thousand that send
nothing, and at the limit of descriptors it stops to accept without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import cast

import orjson
from aiohttp import web

from dsv4_pd.run.front.errors import Refusal, document
from dsv4_pd.run.front.routes import Dialect

HEADERS_S = 20.0  # from the first byte of a request until its headers are whole
IDLE_S = 90.0  # between requests
REFUSED_S = 2.0  # for one too many to read why
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(asyncio.Protocol):
    """One client. Passes everything on to the server's own protocol, and knows how long it has been idle."""

    def __init__(self, door: Connections, inner: asyncio.Protocol) -> None:
        self._door, self._inner = door, inner
        self.transport: asyncio.Transport | None = None
        self.since, self.received, self.busy = time.monotonic(), False, 0
        self.pause_writing, self.resume_writing = inner.pause_writing, inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._door.known[transport] = self
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self.busy and not self.received:
            self.since, self.received = time.monotonic(), True
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.transport is not None:
            self._door.known.pop(self.transport, None)
        self._inner.connection_lost(exc)

    def overdue(self, now: float) -> bool:
        """Whether it has been idle, or about its headers, for too long."""
        return not self.busy and now - self.since > (HEADERS_S if self.received else IDLE_S)


class _TooMany(asyncio.Protocol):
    """Reads a little, says why, goes."""

    answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._end = asyncio.get_running_loop().call_later(REFUSED_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(self.answer)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()


class Connections:
    """Knows every connection; `limit` are served at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.known: dict[asyncio.BaseTransport, Connection] = {}
        self.refused = 0
        _TooMany.answer = too_many(limit)

    def guarded(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """A factory of protocols that pass through here."""

        def made() -> asyncio.Protocol:
            if len(self.known) >= self.limit:
                self.refused += 1
                return _TooMany()
            return Connection(self, make())

        return made

    def counted(self, handler: Handler) -> Handler:
        """The handler, which tells when a request is whole and when it is answered."""

        async def count(request: web.BaseRequest) -> web.StreamResponse:
            connection = self.known.get(request.transport) if request.transport else None
            if connection is None:
                return await handler(request)
            connection.busy, connection.received = connection.busy + 1, False
            try:
                return await handler(request)
            finally:
                connection.busy, connection.since = connection.busy - 1, time.monotonic()

        return count

    async def watch(self) -> None:
        """Close whoever is overdue, once a second, for as long as the server runs."""
        while True:
            await asyncio.sleep(1.0)
            now = time.monotonic()
            for connection in [connection for connection in self.known.values() if connection.overdue(now)]:
                with contextlib.suppress(AttributeError):
                    connection.transport.abort()  # type: ignore[union-attr]


def too_many(limit: int) -> bytes:
    """The whole answer for one connection too many; the path is not known, so it is OpenAI's form."""
    refusal = Refusal(503, f"Too many connections: {limit} are open, the limit", code="too_many_connections")
    body = orjson.dumps(document(Dialect.OPENAI, refusal, ""))
    return (
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nServer: dsv4-pd\r\n"
        b"Retry-After: 1\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
