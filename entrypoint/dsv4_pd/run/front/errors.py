"""Errors in the words and the form of the API that was asked: pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import orjson

from dsv4_pd.run.front.routes import Dialect

OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}
ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_CUT = re.compile(r'"message":"((?:[^"\\]|\\.)+)"')
_CODE = re.compile(rb'"code": ?"([a-z_]{1,64})"')
MOST_READ = 16384  # bytes of an error that are looked at
OPENAI_CODES = {401: "invalid_api_key", 413: "request_too_large", 429: "rate_limit_exceeded", 503: "not_ready"}


@dataclass(eq=False)
class Refusal(Exception):
    """A request that gets an error. `retry_after`: whole seconds; `close`: the rest of the body is not read."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: int | None = None
    allow: str = ""
    close: bool = False

    def __str__(self) -> str:
        return self.message


def body(dialect: Dialect, refusal: Refusal, request_id: str) -> bytes:
    """The JSON of an error.

    >>> body(Dialect.ANTHROPIC, Refusal(404, "model: x"), "r1")
    b'{"type":"error","error":{"type":"not_found_error","message":"model: x"},"request_id":"r1"}'
    >>> body(Dialect.OPENAI, Refusal(400, "no", param="n"), "r1")
    b'{"error":{"message":"no","type":"invalid_request_error","param":"n","code":null}}'
    """
    return orjson.dumps(document(dialect, refusal, request_id))


def document(dialect: Dialect, refusal: Refusal, request_id: str) -> dict[str, Any]:
    """As `body`, before it is text."""
    if dialect is Dialect.ANTHROPIC:
        error = {"type": anthropic_type(refusal.status), "message": refusal.message}
        return {"type": "error", "error": error, "request_id": request_id}
    kind = OPENAI_TYPES.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
    code = refusal.code or OPENAI_CODES.get(refusal.status)
    return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": code}}


def anthropic_type(status: int) -> str:
    """Anthropic's name for a status.

    >>> anthropic_type(422), anthropic_type(500)
    ('invalid_request_error', 'api_error')
    """
    return ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def event(dialect: Dialect, refusal: Refusal, request_id: str) -> bytes:
    """An error in a stream that has begun: clients raise it as they would the answer's status."""
    data = document(dialect, refusal, request_id)
    if dialect is Dialect.RESPONSES:
        error = data["error"]
        flat = {"type": "error", "code": error["code"] or error["type"], "message": error["message"], "param": None}
        return b"event: error\ndata: " + orjson.dumps({**flat, "sequence_number": 0}) + b"\n\n"
    head = b"event: error\n" if dialect is Dialect.ANTHROPIC else b""
    return head + b"data: " + orjson.dumps(data) + b"\n\n"


def headers(refusal: Refusal) -> dict[str, str]:
    """The headers that go with an error."""
    found = {"Content-Type": "application/json"}
    if refusal.retry_after is not None:
        found["Retry-After"] = str(refusal.retry_after)
    if refusal.allow:
        found["Allow"] = refusal.allow
    if refusal.status == 401:
        found["WWW-Authenticate"] = "Bearer"
    return found


def words(raw: bytes) -> str:
    """What an upstream's error says, however it is wrapped: JSON, JSON in JSON, a stream's line, or bare text.

    >>> words(b'data: {"error":{"message":{"object":"error","message":"too long","code":400}}}')
    'too long'
    >>> words(b"data: {'error': {\\"message\\":{\\"object\\":\\"error\\",\\"message\\":\\"too long\\"}}}")
    'too long'
    >>> words(b'{"error":{"message":"Prefill server error (400): {\\\\"message\\\\":\\\\"bad\\\\"}"}}'), words(b"plain")
    ('bad', 'plain')
    """
    text = raw[:MOST_READ].decode(errors="replace").strip().removeprefix("data:").strip()
    while (inner := _inner(text)) is not None:
        text = inner
    if cut := _CUT.findall(text):  # a router ends some errors before they are whole
        text = cut[-1]
    return " ".join(text.split())[:4000]


def code(raw: bytes) -> str | None:
    """The word by which an upstream's error names the hop that failed; numbers are statuses once more.

    >>> code(b'{"error":{"code":"decode_server_error","message":"x"}}'), code(b'{"code":500}')
    ('decode_server_error', None)
    """
    found = _CODE.search(raw[:MOST_READ])
    return found[1].decode() if found else None


def _inner(text: str) -> str | None:
    """The message of the first JSON object in the text."""
    at = text.find("{")
    while at >= 0:
        found = _object(text[at:])
        while isinstance(found, dict):
            found = found.get("error") or found.get("message") or found.get("detail")
        if isinstance(found, str) and found:
            return found
        at = text.find("{", at + 1)
    return None


def _object(text: str) -> Any:
    """A JSON value at the start of a text, whatever follows it."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None
