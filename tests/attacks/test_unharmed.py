"""What judges the attacks can fail: each kind of harm, done to a stand-in, is seen."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from attacks import unharmed as judge
from attacks.wire import Target, head


class Standin:
    """An appliance in this process. What it hides: everything but the words that the judge reads."""

    def __init__(self) -> None:
        self.said, self.status, self.spent, self.pid = "READY", 200, 0, 7
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                raw = json.dumps({"choices": [{"text": "x"}]}).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def do_GET(self) -> None:
                self.wfile.write(b"HTTP/1.1 500 Oops\r\n\r\nTraceback (most recent call last):")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.ports = {"DSV4_PORT": self.server.server_address[1]}

    def wait_for(self, *_: str) -> None:
        pass

    def state(self) -> str:
        return self.said

    def health(self) -> dict[str, Any]:
        return {"restarts": {"spent": self.spent}}

    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),)


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    made = Standin()
    monkeypatch.setattr(judge, "programs", lambda one: {"router": one.pid})
    yield made
    made.server.shutdown()
    made.server.server_close()


def harmed(standin: Standin, harm: Callable[[Target], object]) -> str:
    """What the judge says of it; empty for nothing."""
    try:
        with judge.unharmed(standin) as target:  # type: ignore[arg-type]
            harm(target)
            time.sleep(0.5)
    except AssertionError as error:
        return str(error)
    return ""


def test_nothing_is_no_harm(standin: Standin) -> None:
    assert harmed(standin, lambda _: None) == ""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("status", 429, "429"), ("said", "RECOVERING", "RECOVERING"), ("pid", 8, "replaced"), ("spent", 1, "1 == 0")],
)
def test_harm_is_seen(standin: Standin, name: str, value: object, words: str) -> None:
    assert words in harmed(standin, lambda _: setattr(standin, name, value))


def test_memory_that_was_needed_for_a_moment_is_seen(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(_: Target) -> None:
        held = b"x" * (24 << 20)
        time.sleep(0.8)
        del held

    monkeypatch.setattr(judge, "GROWTH_MIB", 8)
    assert "< 8" in harmed(standin, grow)


def test_a_stack_in_an_answer_is_seen(standin: Standin) -> None:
    assert "Traceback" in harmed(standin, lambda target: target.send("x", head("GET", "/"), 2.0))
