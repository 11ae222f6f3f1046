"""A request's body: bounded, in time, and a JSON object."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_exceptions import HTTPException

from dsv4_pd.front.errors import Refusal

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read(request: web.BaseRequest, most: int, bound: float) -> bytes:
    """The whole body; raises Refusal 413, 408 or 400."""
    length = request.content_length
    if length is not None and length > most:
        raise _too_large(most)
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(CONTINUE)
    try:
        async with asyncio.timeout(bound):
            return await _collected(request, most)
    except TimeoutError:
        raise Refusal(408, f"The body did not come within {bound:.0f} s", close=True) from None
    except (HttpProcessingError, HTTPException, web.RequestPayloadError) as error:
        raise Refusal(400, f"The body can't be read: {type(error).__name__}", close=True) from None


async def _collected(request: web.BaseRequest, most: int) -> bytes:
    parts, size = [], 0
    while part := await request.content.readany():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


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
