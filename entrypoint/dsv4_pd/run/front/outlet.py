"""The way back to a client that asked for a stream, kept open while the servers have nothing to say yet.

The engine answers a stream with its first token, so a long prompt means minutes of silence, and whatever stands between
(load balancers, browsers) cuts a connection that is silent for one. After a while the stream is begun without it, and a
comment goes out from time to time, which every client of server-sent events passes over.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache",
           "X-Accel-Buffering": "no"}  # fmt: skip
COMMENT = b": keep-alive\n\n"


@dataclass(eq=False, slots=True)
class Outlet:
    """One answer's way out. `headers`: what every answer of ours carries."""

    request: web.BaseRequest
    headers: dict[str, str]
    response: web.StreamResponse | None = None
    ended: bool = False
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self, status: int = 200) -> web.StreamResponse:
        """The stream, begun once; a status that comes later than its beginning is lost."""
        async with self._opening:
            if self.response is None:
                response = web.StreamResponse(status=status, headers={**self.headers, **HEADERS})
                await response.prepare(self.request)
                self.response = response
        return self.response

    async def begun(self) -> bool:
        """Whether a client has been told that a stream comes."""
        async with self._opening:
            return self.response is not None

    async def keep(self) -> None:
        """Say that somebody is there. A client that has gone is found out elsewhere."""
        try:
            response = await self.open()
            if not self.ended:
                await response.write(COMMENT)
        except (ConnectionError, RuntimeError):
            self.ended = True

    async def close(self, last: bytes = b"") -> web.StreamResponse:
        """End it."""
        response = await self.open()
        self.ended = True
        if last:
            await response.write(last)
        await response.write_eof()
        return response
