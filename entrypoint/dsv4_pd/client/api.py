"""The OpenAI-compatible API as a client sees it: whole answers and streams, read strictly."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx2

from dsv4_pd.client import http

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` is the JSON text as the model wrote it."""

    name: str
    arguments: str

    def parsed(self) -> Any:
        """The arguments' value, or None when they are no JSON."""
        try:
            return json.loads(self.arguments)
        except ValueError:
            return None


@dataclass(slots=True)
class Reply:
    """One answer, streamed or whole."""

    status: int
    content: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    done: bool = True  # a stream that ends without [DONE] was cut
    chunks: int = 0
    seconds: float = 0.0
    error: str = ""

    @property
    def empty(self) -> bool:
        """Neither text, nor thought, nor call."""
        return not (self.content.strip() or self.reasoning.strip() or self.calls)


class Api:
    """Requests to one router."""

    def __init__(self, url: str, model: str, key: str | None = None, timeout: float = 600.0) -> None:
        self.url, self.model, self.key, self.timeout = url.rstrip("/"), model, key, timeout

    def chat(self, messages: str | list[Body], *, stream: bool = False, timeout: float | None = None,
             **options: Any) -> Reply:  # fmt: skip
        """A chat completion at temperature 0; `options` go into the body."""
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        body = {"model": self.model, "messages": said, "temperature": 0, "stream": stream, **options}
        if stream:
            body["stream_options"] = {"include_usage": True}
        return self._send("/v1/chat/completions", body, stream, timeout)

    def complete(self, prompt: str, *, stream: bool = False, **options: Any) -> Reply:
        """A plain completion at temperature 0."""
        body = {"model": self.model, "prompt": prompt, "temperature": 0, "stream": stream, **options}
        return self._send("/v1/completions", body, stream, None)

    def with_key(self, key: str | None) -> Api:
        """The same API under another key."""
        return Api(self.url, self.model, key, self.timeout)

    def _send(self, path: str, body: Body, stream: bool, timeout: float | None) -> Reply:
        begun = time.monotonic()
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            with (
                http.client(self.url, timeout or self.timeout, headers) as client,
                client.stream("POST", self.url + path, json=body) as answer,
            ):
                reply = _read(answer, stream)
        except (*http.FAILURES, ValueError) as error:
            reply = Reply(0, error=f"{type(error).__name__}: {error}", done=False)
        reply.seconds = time.monotonic() - begun
        return reply


def _read(answer: httpx2.Response, stream: bool) -> Reply:
    if not answer.is_success:
        return Reply(answer.status_code, error=answer.read().decode(errors="replace")[:2000], done=False)
    return _streamed(answer) if stream else _whole(answer.status_code, answer.read())


def _whole(status: int, body: bytes) -> Reply:
    data = json.loads(body)
    choice = (data.get("choices") or [{}])[0]
    reply = Reply(status, usage=data.get("usage") or {}, finish_reason=choice.get("finish_reason"), chunks=1)
    message = choice.get("message") or {"content": choice.get("text")}
    reply.content, reply.reasoning = message.get("content") or "", message.get("reasoning_content") or ""
    reply.calls = [_call(item) for item in message.get("tool_calls") or ()]
    return reply


def _call(item: Body) -> Call:
    function = item.get("function") or {}
    return Call(str(function.get("name")), str(function.get("arguments") or ""))


def _streamed(answer: httpx2.Response) -> Reply:
    reply, parts = Reply(200, done=False), cast(dict[int, list[str]], {})
    for data in _events(answer):
        if data == "[DONE]":
            reply.done = True
            continue
        event = json.loads(data)
        if "error" in event:
            reply.error = str(event["error"])
        reply.chunks += 1
        reply.usage = event.get("usage") or reply.usage
        for choice in event.get("choices") or ():
            _add(reply, parts, choice)
    reply.calls = [Call(name, arguments) for _, (name, arguments) in sorted(parts.items())]
    return reply


def _add(reply: Reply, parts: dict[int, list[str]], choice: Body) -> None:
    delta = choice.get("delta") or {"content": choice.get("text")}
    reply.content += delta.get("content") or ""
    reply.reasoning += delta.get("reasoning_content") or ""
    reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
    for item in delta.get("tool_calls") or ():
        part = parts.setdefault(int(item.get("index") or 0), ["", ""])
        function = item.get("function") or {}
        part[0] = function.get("name") or part[0]
        part[1] += function.get("arguments") or ""


def _events(answer: httpx2.Response) -> Iterator[str]:
    for line in _lines(answer):
        if line.startswith("data:"):
            yield line.removeprefix("data:").strip()


def _lines(answer: httpx2.Response) -> Iterator[str]:
    """Lines as they come, split at line feeds alone: `iter_lines` also splits at characters that a model may write."""
    rest = b""
    for piece in answer.iter_bytes():
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode().strip() for line in whole)
    yield rest.decode().strip()
