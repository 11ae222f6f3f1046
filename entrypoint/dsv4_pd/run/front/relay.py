"""An answer on its way to the client: as it comes, unless something in it has to change."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import orjson
from aiohttp import web

from dsv4_pd.run.front import errors, sse
from dsv4_pd.run.front.dialects.base import Asked
from dsv4_pd.run.front.errors import Refusal
from dsv4_pd.run.front.exchange import Exchange
from dsv4_pd.run.front.outlet import Outlet

NO_DETAILS = b',"completion_tokens_details":null'  # the details are an object, or not there
TAIL = 512  # bytes of a stream's end that are looked at


async def whole(exchange: Exchange, asked: Asked, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """An answer in one piece, always as JSON: a router may call it something else."""
    raw = await answer.read()
    exchange.first = time.monotonic()
    exchange.usage = sse.usage(raw)
    if asked.answer is not None:
        raw = orjson.dumps(asked.answer(orjson.loads(raw)))
    exchange.bytes_out = len(raw)
    headers = {**exchange.headers(), "Content-Type": "application/json"}
    return web.Response(body=raw, status=answer.status, headers=headers)


async def stream(
    exchange: Exchange, asked: Asked, answer: aiohttp.ClientResponse, outlet: Outlet
) -> web.StreamResponse:
    """Server-sent events, each written when it has come. A client that is slow slows the router, and nobody else."""
    out, last, tail = await outlet.open(answer.status), b"", b""
    try:
        async with asyncio.timeout_at(exchange.take_deadline()):
            tail = await _copy(exchange, asked, answer.content, out)
    except TimeoutError:
        exchange.ended = "too long"
        last = errors.event(exchange.dialect, _TOO_LONG, exchange.id)
    except aiohttp.ClientPayloadError:
        tail = b""
    if exchange.ended == "whole" and not sse.is_whole(tail):
        exchange.ended = "upstream broke"
        last = errors.event(exchange.dialect, _BROKEN, exchange.id)
    return await outlet.close(last)


# What a client is told in the middle of a stream.
_BROKEN = Refusal(502, "The servers ended the stream before the answer was whole; send the request again",
                  code="upstream_broke")  # fmt: skip
_TOO_LONG = Refusal(504, "The answer took longer than one request may take", code="timeout")


async def _copy(exchange: Exchange, asked: Asked, source: aiohttp.StreamReader, out: web.StreamResponse) -> bytes:
    """Everything that comes; returns the end of it."""
    cutter, change, tail = sse.Cutter(), asked.events() if asked.events is not None else None, b""
    while chunk := await source.readany():
        block = cutter.cut(chunk)
        if not block:
            continue
        events = sse.brought(block)
        tail = block[-TAIL:]
        if found := sse.usage(block):
            exchange.usage = sse.most(exchange.usage, found)
            block = sse.without_count(block) if asked.hide_usage else block.replace(NO_DETAILS, b"")
        if change is not None:
            block = change.block(block)
        exchange.saw(block, events)
        if block:
            exchange.writing = exchange.quiet = time.monotonic()
            await out.write(block)
            exchange.writing = None
    return tail + cutter.kept
