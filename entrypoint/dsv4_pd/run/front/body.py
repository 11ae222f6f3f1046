"""A request's body: bounded, alone and together with all others, in time, and a JSON object."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_exceptions import HTTPException

from dsv4_pd.run.front.errors import Refusal

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(slots=True)
class Room:
    """Memory for all bodies that are being read or passed on, in bytes: slow ones of many clients must not fill it."""

    most: int
    used: int = 0

    @contextmanager
    def guest(self) -> Iterator[Guest]:
        """One request's share, given back when it is over."""
        guest = Guest(self)
        try:
            yield guest
        finally:
            guest.leave()


@dataclass(slots=True)
class Guest:
    """What one body takes of the room."""

    room: Room
    held: int = 0

    def take(self, size: int) -> None:
        """Raises Refusal 503 where the room is full."""
        if self.room.used + size > self.room.most:
            raise Refusal(503, "Too many large requests are being read at once; try again", retry_after=2, close=True)
        self.held += size
        self.room.used += size

    def leave(self) -> None:
        """The servers have it: what is left of the request is its answer."""
        self.room.used -= self.held
        self.held = 0


async def read(request: web.BaseRequest, most: int, bound: float, guest: Guest) -> bytes:
    """The whole body; raises Refusal 415, 413, 408, 503 or 400."""
    packed = request.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise Refusal(415, f"Content-Encoding {packed[:40]!r}: the body must be sent as it is", close=True)
    length = request.content_length
    if length is not None and length > most:
        raise _too_large(most)
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(CONTINUE)
    try:
        async with asyncio.timeout(bound):
            return await _collected(request, most, guest)
    except TimeoutError:
        raise Refusal(408, f"The body did not come within {bound:.0f} s", close=True) from None
    except (HttpProcessingError, HTTPException, web.RequestPayloadError) as error:
        raise Refusal(400, f"The body can't be read: {type(error).__name__}", close=True) from None


async def _collected(request: web.BaseRequest, most: int, guest: Guest) -> bytes:
    parts, size = [], 0
    while part := await request.content.readany():
        size += len(part)
        if size > most:
            raise _too_large(most)
        guest.take(len(part))
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def written(data: dict[str, Any]) -> bytes:
    """An object as it is sent on; raises Refusal 400 for one that only a reader can take (orjson reads 1024 levels and
    writes 254; the routers read 128).
    """
    try:
        return orjson.dumps(data)
    except orjson.JSONEncodeError:
        raise Refusal(400, "The body is nested too deeply: more than 254 levels") from None


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"The request is larger than {most} bytes, the most that fits the context", close=True)


def parsed(raw: bytes) -> dict[str, Any]:
    """The object in it; raises Refusal 400."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"The body is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise Refusal(400, f"The body is a JSON {type(data).__name__}, expected an object")
    return data
