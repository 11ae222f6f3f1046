"""Requests to a server on loopback. Standard library alone: the GPU machine has nothing else for certain."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


def call(url: str, body: Answer | None = None, timeout: float = 300.0) -> tuple[int, Any]:
    """Status and body, decoded where it is JSON; status 0 where nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return reply.status, decoded(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, decoded(error.read())
    except (OSError, TimeoutError) as error:
        return 0, f"{type(error).__name__}: {error}"


def decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def post(url: str, body: Answer, timeout: float = 300.0) -> Any:
    """The answer of a request that must succeed."""
    status, answer = call(url, body, timeout)
    if status != 200:
        raise RuntimeError(f"{url}: status {status}, expected 200: {str(answer)[:500]}")
    return answer


def wait_until(true: Callable[[], bool], seconds: float, pause: float = 0.25) -> float | None:
    """Seconds until it holds; None when it does not within the time."""
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > seconds:
            return None
        time.sleep(pause)
    return time.monotonic() - begun
