"""Bytes to the API port as a hostile client writes them, and what comes back; no HTTP library stands between."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

CHUNK = 65536
AT_ONCE = 4
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
# What a client must never read: a stack of ours, the engine's or a router's, in any of their languages.
INTERNALS = (
    b"Traceback (most recent",
    b'File "',
    b"site-packages",
    b"panicked at",
    b"stack backtrace",
    b".rs:",
    b"RuntimeError",
)


@dataclass(frozen=True, slots=True)
class Reply:
    """Everything that came back until the other side closed or fell silent. `closed`: it was the other side."""

    raw: bytes
    closed: bool
    seconds: float

    @property
    def statuses(self) -> list[int]:
        """Of each answer on the connection."""
        return [int(code) for code in STATUS.findall(self.raw)]

    @property
    def internals(self) -> list[bytes]:
        """What of `INTERNALS` a client got to read."""
        return [word for word in INTERNALS if word in self.raw]


@dataclass(slots=True)
class Target:
    """The API port of a started appliance, and what was seen there."""

    port: int
    replies: list[tuple[str, Reply]] = field(default_factory=list)

    def connect(self, wait_s: float = 10.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=wait_s)

    def send(self, name: str, raw: bytes | Iterable[bytes], wait_s: float = 10.0, most: int = 1 << 20) -> Reply:
        """Write, then read until the other side closes, `most` bytes came or nothing comes for `wait_s`."""
        begun = time.monotonic()
        with self.connect(wait_s) as client:
            parts = [raw] if isinstance(raw, bytes) else raw
            with contextlib.suppress(OSError):  # it may be refused before it is whole
                for part in parts:
                    client.sendall(part)
            heard, closed = read(client, most)
        reply = Reply(heard, closed, time.monotonic() - begun)
        self.replies.append((name, reply))
        return reply

    def send_all(self, attacks: Iterable[tuple[str, bytes | Iterable[bytes]]], wait_s: float) -> None:
        """Some of them at once: what is left open must not keep the others."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(self.send, name, raw, wait_s) for name, raw in attacks]:
                done.result()


def read(client: socket.socket, most: int = 1 << 20) -> tuple[bytes, bool]:
    """(what came, whether the other side closed)."""
    heard = bytearray()
    while len(heard) < most:
        try:
            part = client.recv(CHUNK)
        except TimeoutError:
            return bytes(heard), False
        except OSError:
            return bytes(heard), True
        if not part:
            return bytes(heard), True
        heard += part
    return bytes(heard), False


def head(
    method: str, target: str, headers: Mapping[str, str] | Iterable[tuple[str, str]] = (), version: str = "HTTP/1.1"
) -> bytes:
    """A request's head; the connection is to be closed after the answer unless a header says otherwise."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    names = {name.lower() for name, _ in pairs}
    own = [("Host", "localhost")] if "host" not in names else []
    own += [("Connection", "close")] if "connection" not in names else []
    lines = [f"{method} {target} {version}", *(f"{name}: {value}" for name, value in (*own, *pairs)), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(body: bytes, path: str = "/v1/completions", **headers: str) -> bytes:
    """A whole POST of JSON."""
    given = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    return head("POST", path, given | {name.replace("_", "-"): value for name, value in headers.items()}) + body


def small(**fields: Any) -> bytes:
    """A request that is answered in no time."""
    return json.dumps({"model": "dsv4-demo", "prompt": "hi", "max_tokens": 2, "temperature": 0, **fields}).encode()


def chunks(parts: Iterable[bytes], extension: bytes = b"") -> Iterator[bytes]:
    """Chunked coding of these parts, without the last one."""
    for part in parts:
        yield b"%x%s\r\n%s\r\n" % (len(part), extension, part)
