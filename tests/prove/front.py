"""A proxy in front of a real port that spoils what passes: misbehaviour that the real part can't be told to show."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Change = Callable[["Passing"], None]


@dataclass
class Passing:
    """One exchange; a change edits it in place. `request` is edited before it goes on, status and body after."""

    path: str
    request: bytes
    headers: dict[str, str]
    status: int = 0
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()

    @text.setter
    def text(self, value: str) -> None:
        self.body = value.encode()


@contextmanager
def front(target: str, after: Change | None = None, before: Change | None = None) -> Iterator[str]:
    """The proxy's address. `before` may set `status` to answer by itself."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._pass(None)

        def do_POST(self) -> None:
            self._pass(self.rfile.read(int(self.headers["Content-Length"])))

        def _pass(self, body: bytes | None) -> None:
            kept = {k: v for k, v in self.headers.items() if k.lower() in ("authorization", "content-type")}
            passing = Passing(self.path, body or b"", kept)
            if before:
                before(passing)
            if not passing.status:
                _forward(target, passing, post=body is not None)
                if after:
                    after(passing)
            self.send_response(passing.status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(passing.body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _forward(target: str, passing: Passing, *, post: bool) -> None:
    request = urllib.request.Request(target + passing.path, passing.request if post else None, passing.headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            passing.status, passing.body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        passing.status, passing.body = error.code, error.read()
