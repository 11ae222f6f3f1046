"""The HTTP layer: large bodies are refused unread, errors lose the engine's internals, the rest passes as it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

MIB = 1 << 20


class App:
    """Stands for the engine's ASGI app: notes the body that reached it, answers what it was told."""

    def __init__(self, status: int = 200, body: bytes = b"{}", kind: bytes = b"application/json") -> None:
        self.status, self.body, self.kind = status, body, kind
        self.seen: bytes | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen, more = b"", True
        while more:
            message = await receive()
            self.seen += message.get("body", b"")
            more = message.get("more_body", False)
        headers = [(b"content-type", self.kind), (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        half = len(self.body) // 2
        await send({"type": "http.response.body", "body": self.body[:half], "more_body": True})
        await send({"type": "http.response.body", "body": self.body[half:]})


def call(app: App, chunks: list[bytes], path: str = "/generate", method: str = "POST", declared: int | None = None,
         ready: bool = True) -> tuple[int, dict[bytes, bytes], bytes, int]:  # fmt: skip
    """(status, headers, body, chunks that were read) of one request."""
    from dsv4_gate.door import Bounds, Door

    sent: list[dict[str, Any]] = []
    waiting = list(chunks)

    async def receive() -> dict[str, Any]:
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(dict(message))

    length = sum(map(len, chunks)) if declared is None else declared
    scope = {"type": "http", "method": method, "path": path,
             "headers": [(b"content-length", str(length).encode())] if length >= 0 else []}  # fmt: skip
    door = Door(app, lambda: Bounds(4096, 17) if ready else None)
    asyncio.run(door(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body, len(chunks) - len(waiting)


def test_an_ordinary_request_passes_byte_for_byte() -> None:
    app = App(body=b'{"text": "File \\"/x.py\\", line 1"}')
    status, headers, body, _ = call(app, [b'{"text": ', b'"hi"}'])
    assert (status, app.seen, body) == (200, b'{"text": "hi"}', app.body), "an answer that is no error is not looked at"
    assert headers[b"content-length"] == str(len(body)).encode()


def test_a_body_that_says_it_is_too_large_is_dropped() -> None:
    app = App()
    status, headers, body, read = call(app, [b"x" * MIB] * 20)
    assert (status, read, app.seen) == (400, 20, None)
    assert json.loads(body) == {"error": {"message": "the request is larger than 1048576 bytes"}}
    assert headers[b"connection"] == b"close"


@pytest.mark.parametrize("declared", [-1, 5], ids=["chunked", "a length that is not true"])
def test_a_body_that_hides_its_size_is_dropped_too(declared: int) -> None:
    app = App()
    status, _, _, read = call(app, [b"x" * (MIB // 4)] * 40, declared=declared)
    assert (status, read, app.seen) == (400, 40, None)


@pytest.mark.parametrize("declared", [-1, 1 << 40])
def test_a_body_without_an_end_is_left_unread(declared: int) -> None:
    app = App()
    status, headers, _, read = call(app, [b"x" * MIB] * 100, declared=declared)
    assert (status, app.seen, headers[b"connection"]) == (400, None, b"close")
    assert read == (65 if declared < 0 else 0)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/generate", {"error": {"message": ...}}),
        ("/v1/responses", {"error": {"message": ...}}),
        ("/v1/completions", {"object": "error", "message": ..., "type": "BadRequest", "param": None, "code": 400}),
        ("/v1/chat/completions", {"object": "error", "message": ..., "type": "BadRequest", "param": None, "code": 400}),
        ("/v1/messages", {"type": "error", "error": {"type": "invalid_request_error", "message": ...}}),
    ],
)
def test_a_prompt_that_cannot_fit_is_refused_in_the_engines_form(path: str, form: dict[str, Any]) -> None:
    app = App()
    content = "a" * 70_000
    sent: dict[str, Any] = (
        {"messages": [{"role": "user", "content": content}]} if path.startswith(("/v1/m", "/v1/ch")) else {}
    )
    sent |= {"prompt": content} if path == "/v1/completions" else {"text": content} if path == "/generate" else {}
    sent |= {"input": content} if path == "/v1/responses" else {}
    status, _, body, _ = call(app, [json.dumps(sent).encode()], path=path)
    assert (status, app.seen) == (400, None)
    words = "The input (at least 4118 tokens) is longer than the model's context length (4096 tokens)."
    assert json.loads(body) == json.loads(json.dumps(form, default=lambda _: words))


def test_before_the_engine_knows_its_model_nothing_is_judged() -> None:
    app = App()
    assert call(app, [b"x" * MIB] * 2, ready=False)[0] == 200
    assert len(app.seen or b"") == 2 * MIB


def test_an_error_loses_the_engines_paths() -> None:
    app = App(
        400,
        json.dumps({"message": 'bad\n  File "/opt/e/http_server.py", line 9, in f\n    POST /x', "code": 400}).encode(),
    )
    status, headers, body, _ = call(app, [b"{}"])
    assert (status, json.loads(body)) == (400, {"message": "bad", "code": 400})
    assert headers[b"content-length"] == str(len(body)).encode()


@pytest.mark.parametrize(
    "app", [App(500, b"oops", b"text/plain"), App(400, b"{broken"), App(404, b"")], ids=["text", "bad", "no"]
)
def test_an_error_that_is_no_json_passes(app: App) -> None:
    status, _, body, _ = call(app, [b"{}"], method="GET")
    assert (status, body) == (app.status, app.body)


def test_json_that_does_not_parse_is_the_engines_to_refuse() -> None:
    app = App()
    call(app, [b"[" * 100_000])
    assert len(app.seen or b"") == 100_000
