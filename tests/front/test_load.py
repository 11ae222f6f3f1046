"""Limits, queues, clients that leave or are slow, and more of them than there is room for."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from dataclasses import replace

import aiohttp
from aiohttp import web

from front.conftest import CHAT, DONE, HELLO, Door, chunk, door, once, stream

STREAM = {**HELLO, "stream": True}


async def hold(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
    """An answer that never ends: a stream after its first event, or none at all."""
    if b'"stream": true' in raw or b'"stream":true' in raw:
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await out.prepare(request)
        await out.write(chunk("a"))
    await asyncio.sleep(600)
    return web.Response()


async def begin(d: Door, body: object = HELLO) -> asyncio.Task[object]:
    """A request of which the router knows; its number of running ones has grown when this returns."""
    before = d.router.running
    task: asyncio.Task[object] = asyncio.create_task(d.post(body=body))
    await d.until(lambda: d.router.running > before)
    return task


async def leave(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_limit_is_exact_and_the_queue_waits() -> None:
    async with door(hold, max_concurrent=3, queue_size=2) as d:
        running = [await begin(d) for _ in range(3)]
        waiting: list[asyncio.Task[object]] = [asyncio.create_task(d.post()) for _ in range(2)]
        await d.until(lambda: len(d.front.service.admission.waiting) == 2)
        status, body, headers = await d.post()
        assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        assert 1 <= int(headers["retry-after"]) <= 60
        assert d.router.running == 3
        await leave(running[0])
        await d.until(lambda: len(d.front.service.admission.waiting) == 1)
        await d.until(lambda: d.router.running == 3)
        await leave(*running, *waiting)
        await d.until(lambda: d.front.service.admission.used == 0)
        assert not d.front.service.admission.waiting


async def test_the_queue_has_an_end() -> None:
    async with door(hold, max_concurrent=1, queue_timeout=0.3) as d:
        one = await begin(d)
        status, body, headers = await d.post()
        assert (status, body["error"]["code"]) == (503, "queue_timeout")
        assert int(headers["retry-after"]) >= 1
        await leave(one)


async def test_a_slot_is_back_when_a_client_leaves() -> None:
    """Streams, whole answers and those who wait: here only that nothing but the client's leaving frees a slot, on a
    machine of any load; `make bench-front` holds it to 100 ms.
    """
    async with door(hold, max_concurrent=4, queue_size=8) as d:
        for body in (HELLO, STREAM):
            tasks = [await begin(d, body) for _ in range(4)]
            waiting: list[asyncio.Task[object]] = [asyncio.create_task(d.post()) for _ in range(4)]
            await d.until(lambda: len(d.front.service.admission.waiting) == 4)
            await leave(*waiting)
            await d.until(lambda: not d.front.service.admission.waiting)
            begun = time.monotonic()
            await leave(*tasks)
            await d.until(lambda: d.front.service.admission.used == 0, 5)
            assert time.monotonic() - begun < 5
            await d.until(lambda: d.router.running == 0, 5)
        assert d.router.left == 8, "the servers learn of each"


async def test_a_request_for_four_answers_takes_four_slots() -> None:
    async with door(hold, max_concurrent=5) as d:
        four = await begin(d, {**HELLO, "n": 4})
        assert d.front.service.admission.used == 4
        one = await begin(d)
        two: asyncio.Task[object] = asyncio.create_task(d.post())
        await d.until(lambda: len(d.front.service.admission.waiting) == 1)
        await leave(four)
        await d.until(lambda: d.router.running == 2)
        await leave(one, two)


async def test_a_slow_reader_holds_up_nobody_and_ends() -> None:
    async def pour(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        if b"endless" not in raw:
            return await once(request, raw)
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await out.prepare(request)
        while True:
            await out.write(chunk("x" * 4000))

    async with door(pour, stall_timeout=600) as d:
        host, port = "127.0.0.1", d.front.config.port
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        raw = json.dumps({**STREAM, "user": "endless"}).encode()
        writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (CHAT.encode(), len(raw), raw))
        assert (await reader.readline()).endswith(b"200 OK\r\n")
        for _ in range(5):
            assert (await d.post(body=STREAM))[0] == 200
        exchange = next(iter(d.front.service.exchanges))
        await d.until(lambda: exchange.writing is not None)
        poured = exchange.bytes_out
        await asyncio.sleep(0.3)
        assert exchange.bytes_out == poured, "the router waits as well, so no memory grows"
        assert poured < 16 << 20
        d.front.service.config = replace(d.front.service.config, stall_timeout=0.1)
        await d.until(lambda: not d.front.service.exchanges, 30)
        await d.until(lambda: d.router.running == 0, 30)
        assert d.front.service.metrics.of(CHAT, "anyone", "openai").ended["client stalled"] == 1
        writer.close()


async def test_more_connections_than_there_is_room_for() -> None:
    async with door(max_connections=8) as d:
        kept = [await asyncio.open_connection("127.0.0.1", d.front.config.port) for _ in range(8)]
        await d.until(lambda: len(d.front.connections.known) == 8)
        for _ in range(20):
            connector = aiohttp.TCPConnector(force_close=True)
            async with (
                aiohttp.ClientSession(connector=connector) as client,
                client.post(d.url + CHAT, json=HELLO) as got,
            ):
                assert (got.status, got.headers["Retry-After"]) == (503, "1")
                assert (await got.json())["error"]["code"] == "too_many_connections"
        assert d.front.connections.refused == 20
        kept.pop()[1].close()
        await d.until(lambda: len(d.front.connections.known) == 7)
        assert (await d.post())[0] == 200
        for _, writer in kept:
            writer.close()


async def test_half_a_request_does_not_stay() -> None:
    async with door() as d:
        half = socket.create_connection(("127.0.0.1", d.front.config.port))
        half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
        await d.until(lambda: any(one.received for one in d.front.connections.known.values()))
        (one,) = d.front.connections.known.values()
        assert not one.overdue(time.monotonic())
        assert one.overdue(time.monotonic() + 21)
        one.since -= 21
        await d.until(lambda: not d.front.connections.known)
        half.close()


async def test_connections_are_kept_and_used_again() -> None:
    async with door() as d:
        for _ in range(5):
            assert (await d.post())[0] == 200
            assert (await d.post(body={"model": "x"}))[0] == 404
        assert len(d.front.connections.known) == 1


async def test_a_stop_waits_for_what_runs() -> None:
    gate = asyncio.Event()

    async def slow(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
        return await stream(request, chunk("a"), gate, DONE)

    async with door(slow) as d:
        task = await begin(d, STREAM)
        d.stop.set()
        await d.until(lambda: d.front.service.truth.word.state == "STOPPING")
        async with aiohttp.ClientSession() as client, client.post(d.url + CHAT, json=STREAM) as refused:
            assert (refused.status, refused.headers["Connection"]) == (503, "close")
            assert int(refused.headers["Retry-After"]) > 0
            assert "STOPPING" in (await refused.json())["error"]["message"]
        gate.set()
        assert (await task)[1].encode() == chunk("a") + DONE  # type: ignore[index]
