"""What goes wrong on either side, and what a client is told of it."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from aiohttp import web

from front.conftest import CHAT, HELLO, chunk, door, stream

STREAM = {**HELLO, "stream": True}
MESSAGES = {**HELLO, "max_tokens": 4}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [(b"{", 400, "no JSON"), (b"[1]", 400, "expected an object"), (b"", 400, "no JSON"),
     (b'{"model":"\xff"}', 400, "no JSON"), (b"[" * 100_000, 400, "no JSON")],
)  # fmt: skip
async def test_a_body_that_is_none(body: bytes, status: int, words: str) -> None:
    async with door() as d:
        found, answer, _ = await d.post(body=body)
        assert found == status
        assert words in answer["error"]["message"]


async def test_a_body_that_is_too_large() -> None:
    async def pieces() -> Any:
        for _ in range(64):
            yield b" " * 1024

    async with door(max_body=4096) as d:
        status, body, _ = await d.post("/v1/messages", b" " * 5000)
        assert (status, body["error"]["type"]) == (413, "request_too_large")
        async with d.client.post(d.url + CHAT, data=pieces()) as got:
            assert (got.status, (await got.json())["error"]["code"]) == (413, "request_too_large")
        assert d.router.heard == []


async def test_a_body_that_does_not_come() -> None:
    async def never() -> Any:
        yield b"{"
        await asyncio.sleep(60)

    async with door(body_timeout=0.2) as d, d.client.post(d.url + CHAT, data=never()) as got:
        assert got.status == 408


@pytest.mark.parametrize("packed", ["gzip", "deflate", "br", "zstd, gzip"])
async def test_a_body_that_is_packed_is_refused_unread(packed: str) -> None:
    """A bomb of 64 KB took the whole front a third of a second of computing."""
    async with door() as d:
        body = gzip.compress(json.dumps(HELLO).encode())
        async with d.client.post(d.url + CHAT, data=body, headers={"Content-Encoding": packed}) as got:
            assert (got.status, "must be sent as it is" in (await got.json())["error"]["message"]) == (415, True)
        assert d.router.heard == []
        assert (await d.post())[0] == 200


async def test_bodies_have_one_room_together_and_leave_it() -> None:
    """However many clients send however slowly: what does not fit is refused, and what does is served."""

    async def slow() -> Any:
        yield b" " * 40_000
        await asyncio.sleep(60)

    async with door(max_body=60_000, body_timeout=60) as d:
        d.front.service._room.most = 100_000
        held = [asyncio.create_task(d.client.post(d.url + CHAT, data=slow()).__aenter__()) for _ in range(2)]
        while d.front.service._room.used < 80_000:
            await asyncio.sleep(0.01)
        status, body, headers = await d.post(body=json.dumps({**HELLO, "user": "x" * 30_000}).encode())
        assert (status, headers["retry-after"]) == (503, "2"), body
        assert (await d.post())[0] == 200, "a small one has room"
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        while d.front.service._room.used:
            await asyncio.sleep(0.01)
        assert (await d.post(body=json.dumps({**HELLO, "user": "x" * 30_000}).encode()))[0] == 200


async def test_a_large_body_is_asked_for() -> None:
    async with door() as d, d.client.post(d.url + CHAT, json=HELLO, expect100=True) as got:
        assert got.status == 200


REFUSALS = [
    (400, b'{"error":{"message":"bad"}}', 400, "bad"),
    (422, b"Failed to deserialize", 400, "Failed to deserialize"),
    (501, b"Not implemented", 404, "Not implemented"),
    (401, b"", 502, "401 without a word"),
    (503, b'{"error":{"message":"no room"}}', 503, "no room"),
    (500, b'{"error":{"message":"oh"}}', 500, "oh"),
]


@pytest.mark.parametrize(("status", "raw", "wanted", "words"), REFUSALS)
async def test_a_routers_error_becomes_one_of_the_dialect(status: int, raw: bytes, wanted: int, words: str) -> None:
    async def answer(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        return web.Response(status=status, body=raw, content_type="text/event-stream")

    async with door(answer) as d:
        for path, body in ((CHAT, STREAM), ("/v1/messages", MESSAGES)):
            found, got, headers = await d.post(path, body)
            assert (found, headers["content-type"]) == (wanted, "application/json")
            assert words in got["error"]["message"]
            assert ("retry-after" in headers) == (wanted == 503)


async def test_a_router_that_is_away() -> None:
    async with door() as d:
        d.front.upstream._url = "http://127.0.0.1:1"
        status, body, headers = await d.post()
        assert (status, body["error"]["code"], headers["retry-after"]) == (503, "router_down", "2")


async def test_a_stream_that_breaks_ends_with_an_error() -> None:
    async def cut(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        return await stream(request, chunk("a"), end=False)

    async def short(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        return await stream(request, chunk("a"))

    for answer in (cut, short):
        async with door(answer) as d:
            _, text, _ = await d.post(body=STREAM)
            events = text.strip().split("\n\n")
            assert events[0].encode() + b"\n\n" == chunk("a")
            assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "upstream_broke"
            assert d.front.service.metrics.of(CHAT, "anyone", "openai").ended == {"upstream broke": 1}


async def test_an_answer_that_breaks_is_an_error() -> None:
    async def answer(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await out.prepare(request)
        await out.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return out

    async with door(answer) as d:
        status, body, _ = await d.post()
        assert (status, body["error"]["code"]) == (502, "upstream_broke")


async def test_an_answer_that_takes_too_long() -> None:
    async def never(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async def halfway(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await out.prepare(request)
        await out.write(chunk("a"))
        await asyncio.sleep(60)
        return out

    async with door(never, request_timeout=2.0) as d:
        assert (await d.post())[0] == 504
        await d.until(lambda: d.router.left == 1)
    async with door(halfway, request_timeout=5.0) as d:
        _, text, _ = await d.post(body=STREAM)
        assert '"code":"timeout"' in text
        await d.until(lambda: d.router.left == 1)
