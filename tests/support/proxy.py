"""An HTTP proxy on loopback: forwards what is asked by a whole address, tunnels what is asked by CONNECT.

Beside a real one it hides: caches, rewriting of headers, HTTP/2, and any way of asking for a password but Basic.
"""

from __future__ import annotations

import base64
import http.client
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Proxy:
    """What it does, and what it was asked."""

    user: str | None = None  # "name:password"; without it 407
    refuse: int | None = None  # a status for everybody
    seen: list[str] = field(default_factory=list)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _refused(self) -> bool:
        proxy = self.proxy
        proxy.seen.append(f"{self.command} {self.path}")
        wanted = proxy.user and "Basic " + base64.b64encode(proxy.user.encode()).decode()
        status = proxy.refuse or (407 if wanted and self.headers.get("Proxy-Authorization") != wanted else None)
        if status:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
        return bool(status)

    def do_CONNECT(self) -> None:
        if self._refused():
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=20) as there:
            self.send_response(200)
            self.end_headers()
            ends = {self.connection: there, there: self.connection}
            while ready := select.select([*ends], [], [], 20)[0]:
                for one in ready:
                    if not (data := one.recv(65536)):
                        self.close_connection = True
                        return
                    ends[one].sendall(data)

    def do_HEAD(self) -> None:
        self._forward()

    def do_GET(self) -> None:
        self._forward()

    def _forward(self) -> None:
        if self._refused():
            return
        target = urlsplit(self.path)
        there = http.client.HTTPConnection(target.netloc, timeout=20)
        kept = {k: v for k, v in self.headers.items() if not k.lower().startswith("proxy-")}
        there.request(self.command, self.path.split(target.netloc, 1)[1] or "/", headers=kept)
        answer = there.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(data)
        there.close()


@contextmanager
def serving(proxy: Proxy) -> Iterator[Proxy]:
    """Until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
