"""A front in the test's own loop, before a stand-in for the router."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.run.front.server import Front
from multidict import CIMultiDict
from support.ports import free_ports

Answer = Callable[[web.BaseRequest, bytes], Awaitable[web.StreamResponse]]
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
CHAT = "/v1/chat/completions"
ONE = {"id": "1", "object": "chat.completion", "created": 1, "model": "m",
       "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
       "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}  # fmt: skip


def chunk(text: str) -> bytes:
    """One chunk of a chat's stream, in the engine's own form (recorded.json)."""
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    found = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(found, separators=(",", ":")).encode() + b"\n\n"


COUNT = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


@dataclass
class Router:
    """Answers as it is told. It hides everything that a real router does; what is asked of it is the front's doing."""

    answer: Answer
    port: int = 0
    heard: list[tuple[str, CIMultiDict[str], Any]] = field(default_factory=list)
    left: int = 0  # requests whose asker went before the answer was whole
    running: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read()
        self.heard.append((request.path, request.headers.copy(), json.loads(raw) if raw else None))
        self.running += 1
        try:
            return await self.answer(request, raw)
        except asyncio.CancelledError:
            self.left += 1
            raise
        finally:
            self.running -= 1


async def once(request: web.BaseRequest, raw: bytes) -> web.StreamResponse:
    """What a real router does first of all: one answer, streamed where it is asked for."""
    if b'"stream":true' in raw.replace(b" ", b""):
        return await stream(request, chunk("a"), chunk("b"), COUNT, DONE)
    return web.json_response(ONE)


async def stream(request: web.BaseRequest, *parts: bytes | asyncio.Event, end: bool = True) -> web.StreamResponse:
    """A stream in parts, an event among them is waited for; without its end the connection is closed in the middle."""
    out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await out.prepare(request)
    for part in parts:
        if isinstance(part, asyncio.Event):
            await part.wait()
            continue
        await out.write(part)
        await asyncio.sleep(0.002)
    if end:
        await out.write_eof()
    elif request.transport is not None:
        request.transport.abort()
    return out


@dataclass
class Door:
    """A running front and the router behind it."""

    front: Front
    router: Router
    client: aiohttp.ClientSession
    url: str
    stop: asyncio.Event

    async def post(self, path: str = CHAT, body: Any = HELLO, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, body (parsed where it is JSON), headers in lower case."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(self.url + path, data=data, headers=headers) as answer:
            return await _read(answer)

    async def get(self, path: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """The same."""
        async with self.client.get(self.url + path, headers=headers) as answer:
            return await _read(answer)

    async def until(self, true: Callable[[], bool], bound: float = 20.0) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(bound):
            while not true():
                await asyncio.sleep(0.005)


async def _read(answer: aiohttp.ClientResponse) -> tuple[int, Any, dict[str, str]]:
    raw = await answer.read()
    headers = {name.lower(): value for name, value in answer.headers.items()}
    kind = headers.get("content-type", "")
    return answer.status, json.loads(raw) if kind.startswith("application/json") else raw.decode(), headers


@asynccontextmanager
async def door(answer: Answer = once, **settings: Any) -> AsyncIterator[Door]:
    """Everything of one test."""
    router = Router(answer)
    (router.port, port) = free_ports(2)
    runner = web.ServerRunner(web.Server(router.handle, handler_cancellation=True, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", router.port).start()
    config = FrontConfig(**{"upstream": f"http://127.0.0.1:{router.port}", "model": "m", "port": port, **settings})
    front, stop = Front(config), asyncio.Event()
    serving = asyncio.create_task(front.serve(stop))
    connector = aiohttp.TCPConnector(limit=0, ssl=False)
    scheme = "https" if config.tls_cert else "http"
    try:
        async with aiohttp.ClientSession(connector=connector, trust_env=False) as client:
            while not front.listening:
                await asyncio.sleep(0.005)
                assert not serving.done(), serving.exception()
            yield Door(front, router, client, f"{scheme}://127.0.0.1:{port}", stop)
    finally:
        stop.set()
        await serving
        await runner.cleanup()
