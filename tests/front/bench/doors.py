"""Two things that the front promises of its door: it has a word for each of 10,000 connections too many, and a slot
is free within 100 ms of a client's leaving. Clients and the router's stand-in share this process; the front has its
own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import Any

OPEN, TOO_MANY, AT_ONCE = 4096, 10_000, 500
SLOTS, ROUNDS = 8, 100
BODY = {"model": "stub", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request(**fields: Any) -> bytes:
    """A chat as a client sends it."""
    raw = json.dumps({**BODY, **fields}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(raw), raw)


@asynccontextmanager
async def holding(port: int) -> AsyncIterator[None]:
    """A router that answers a stream with one event and then nothing more, and anything else with nothing at all."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            if b'"stream":true' in (await reader.readexactly(int(length.split(b":")[1]))).replace(b" ", b""):
                start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                writer.write(start + b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK))
            await reader.read()
        writer.close()

    async with await asyncio.start_server(hold, "127.0.0.1", port):
        yield


async def asked(port: int, raw: bytes) -> Connection:
    """A connection on which a request has been sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    return reader, writer


async def slots(port: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """How long after a client's leaving the next one's answer begins, in ms, where every slot is taken; streams and
    answers in one piece leave in turn. The way of that answer through the router's stand-in and the front counts.
    """
    kinds = [request(stream=stream) for stream in (True, False)]
    held = [await asked(port, kinds[number % 2]) for number in range(SLOTS)]
    await asyncio.sleep(0.5)
    waits = []
    for number in range(rounds):
        waiter = await asked(port, kinds[0])
        await asyncio.sleep(0.02)  # it has got into the queue
        begun = time.monotonic()
        held.pop(0)[1].transport.abort()
        await waiter[0].readuntil(CHUNK)
        waits.append((time.monotonic() - begun) * 1000)
        held.append(waiter)
        if number % 2:  # every second slot holds an answer in one piece again
            held.pop(0)[1].transport.abort()
            held.append(await asked(port, kinds[1]))
            await asyncio.sleep(0.02)
    for _, writer in held:
        writer.transport.abort()
    cuts = [round(cut, 2) for cut in quantiles(waits, n=100, method="inclusive")]
    return {"rounds": rounds, "slot_free_ms": {"p50": cuts[49], "p99": cuts[98], "max": round(max(waits), 2)}}


async def connections(port: int, limit: int = OPEN, too_many: int = TOO_MANY) -> dict[str, Any]:
    """`limit` connections that send nothing, and `too_many` more of which each sends a request."""
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(limit)]
    begun, told = time.monotonic(), 0
    for _ in range(0, too_many, AT_ONCE):
        told += sum(await asyncio.gather(*(refused(port) for _ in range(AT_ONCE))))
    seconds = time.monotonic() - begun
    for _, writer in idle:
        writer.transport.abort()
    await asyncio.sleep(2.0)
    reader, writer = await asked(port, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    after = (await reader.readline()).decode().strip()
    writer.transport.abort()
    return {"open": limit, "too_many": too_many, "told": told, "seconds": round(seconds, 2), "after": after}


async def refused(port: int) -> bool:
    """Whether one connection too many is told so: a whole answer, JSON, and when to come again."""
    try:
        async with asyncio.timeout(60):
            reader, writer = await asked(port, request())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            code = json.loads(body)["error"]["code"]
    except (OSError, TimeoutError, ValueError, KeyError):
        return False
    return head.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 1\r\n" in head and code == "too_many_connections"
