"""One HTTP request, and what came of it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

KEY = "a-key/with $igns"
HANGS = 0  # in place of a status: no answer within the bound
BOUND_S = 40.0
BEARER = "Authorization: Bearer {}"


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` is HANGS when nothing came in time."""

    status: int
    text: str
    headers: dict[str, str]
    seconds: float

    def json(self) -> Any:
        """The body parsed."""
        return json.loads(self.text)

    def chunks(self) -> list[dict[str, Any]]:
        """The chunks of a stream; its closing [DONE] is required, because a decode that died looks like a clean end."""
        data = [line[6:] for line in self.text.splitlines() if line.startswith("data: ")]
        assert data[-1] == "[DONE]", data[-2:]
        return [json.loads(item) for item in data[:-1]]


def send(
    port: int,
    path: str,
    body: Any = None,
    key: str | None = KEY,
    bound: float = BOUND_S,
    header: str = BEARER,
    method: str | None = None,
) -> Answer:
    """A POST with a body, a GET without, unless it is named; a string is sent as it is. `header`: the key's place."""
    started = time.monotonic()
    try:
        with opened(port, path, body, key, bound, header, method) as answer:
            text = answer.read().decode(errors="replace")
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, text, headers, time.monotonic() - started)
    except TimeoutError:
        return Answer(HANGS, "", {}, time.monotonic() - started)


@contextmanager
def opened(
    port: int,
    path: str,
    body: Any,
    key: str | None = KEY,
    bound: float = BOUND_S,
    header: str = BEARER,
    method: str | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """An answer still being read; leaving the block early is what a client does that goes away."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=bound)
    headers = {"Content-Type": "application/json"} | _key(key, header)
    payload = body if body is None or isinstance(body, str) else json.dumps(body)
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, payload, headers)
        yield connection.getresponse()
    finally:
        connection.close()


def _key(key: str | None, header: str) -> dict[str, str]:
    """A key where it is sent.

    >>> _key("k", "x-api-key: {}"), _key(None, BEARER)
    ({'x-api-key': 'k'}, {})
    """
    name, _, value = header.partition(": ")
    return {name: value.format(key)} if key else {}
