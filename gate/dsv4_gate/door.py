"""The HTTP server's outermost layer of ours (ASGI): how large a request may be, and what an error may say.

It stands before validation and tokenization, so that what it refuses costs next to nothing, and behind the engine's own
check of the API key. It knows HTTP and JSON, nothing of the engine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from dsv4_gate.answers import plain_words
from dsv4_gate.bodies import body_refusal, worth_a_look
from dsv4_gate.sizes import most_body

MOST_DROPPED = 1 << 26  # bytes of a body that is too large
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the running model can take."""

    context_length: int  # tokens
    longest: int  # bytes of the longest token


class Door:
    """`bounds` answers None while the engine is still starting; then only the answers are looked at."""

    def __init__(self, app: App, bounds: Callable[[], Bounds | None]) -> None:
        self.app = app
        self.bounds = bounds

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        send = Plain(send).send
        bounds = self.bounds()
        if bounds is None or scope["method"] not in ("POST", "PUT"):
            return await self.app(scope, receive, send)
        body = await whole_body(receive, declared(scope), most_body(bounds.context_length))
        if body is None:
            reason = f"the request is larger than {most_body(bounds.context_length)} bytes"
            return await answer(send, scope["path"], 400, reason, unread=True)
        if refused := await _judged(body, bounds):
            return await answer(send, scope["path"], 400, refused)
        return await self.app(scope, replay(body, receive), send)


async def _judged(body: bytes, bounds: Bounds) -> str | None:
    if not worth_a_look(body, bounds.context_length, bounds.longest):
        return None
    return await asyncio.to_thread(_parsed_refusal, body, bounds)


def _parsed_refusal(body: bytes, bounds: Bounds) -> str | None:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None  # the engine reports the problem
    return body_refusal(data, bounds.context_length, bounds.longest)


def declared(scope: Message) -> int:
    """The Content-Length, 0 where there is none to read."""
    text = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(text) if text.isdigit() else 0


async def whole_body(receive: Receive, length: int, most: int) -> bytes | None:
    """The body, or None where it is larger than `most` bytes.

    The rest of it is read and dropped, up to a bound: a router that is still sending would take the answer for a reset.
    """
    chunks: list[bytes] = []
    size, more = 0, True
    while more and max(size, length) <= MOST_DROPPED:
        message = await receive()
        if message["type"] != "http.request":  # the client has gone
            break
        chunk = message.get("body", b"")
        size, more = size + len(chunk), message.get("more_body", False)
        if max(size, length) > most:
            chunks.clear()
        else:
            chunks.append(chunk)
    return None if max(size, length) > most else b"".join(chunks)


def replay(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then whatever else comes (the engine waits for a client to go)."""
    given = False

    async def first_the_body() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return first_the_body


async def answer(send: Send, path: str, status: int, reason: str, *, unread: bool = False) -> None:
    """An error in the form that the engine has on this path. A router makes a 500 of any status but 400 and 404."""
    content = json.dumps(error_body(path, status, reason)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if unread:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def error_body(path: str, status: int, reason: str) -> dict[str, Any]:
    """The engine's three ways to say no.

    >>> error_body("/generate", 400, "x")
    {'error': {'message': 'x'}}
    >>> error_body("/v1/completions", 400, "x")["type"]
    'BadRequest'
    """
    if path.startswith("/v1/messages"):
        return {"type": "error", "error": {"type": "invalid_request_error", "message": reason}}
    if path.startswith(("/v1/chat", "/v1/completions")):
        return {"object": "error", "message": reason, "type": "BadRequest", "param": None, "code": status}
    return {"error": {"message": reason}}


class Plain:
    """Passes an answer on; an error's JSON only after its words were looked at."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        """One ASGI message of the answer."""
        if message["type"] == "http.response.start" and _is_json_error(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        body = plain_body(b"".join(self._parts))
        kept = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await self._send({**start, "headers": [*kept, (b"content-length", str(len(body)).encode())]})
        await self._send({"type": "http.response.body", "body": body})


def _is_json_error(start: Message) -> bool:
    kind = next((value for name, value in start.get("headers", ()) if name.lower() == b"content-type"), b"")
    return start["status"] >= 400 and kind.startswith(b"application/json")


def plain_body(body: bytes) -> bytes:
    """An error's JSON with the words of its messages made plain; anything else as it came."""
    try:
        data = json.loads(body)
    except ValueError:
        return body
    return json.dumps(_plain(data), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain_words(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
