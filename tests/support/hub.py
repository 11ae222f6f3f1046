"""A Hub on loopback for tests: the endpoints that huggingface_hub 2.4 calls, on real sockets, with faults on demand.

It is a claim about huggingface.co, made from the client's code (`hf_api.model_info`, `list_repo_tree`, `file_download.
get_hf_file_metadata`, `utils/_http.hf_raise_for_status`) and from the Hub's documented answers: `resolve` answers a
large file with 302, X-Repo-Commit, X-Linked-Size, X-Linked-Etag (its SHA-256) and a signed address on another host; a
small file with 200 and git's blob SHA-1 as ETag. Errors carry X-Error-Code and X-Error-Message. What it hides: Xet
storage (no X-Xet-Hash; the plain transfer is what runs), HTTP/2, the CDN's caches, compression, and redirects of
renamed models.
"""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

COMMIT = "1" * 40
_LARGE = 10_000  # bytes; what Git LFS holds, by suffix in truth


@dataclass
class Faults:
    """What goes wrong, and how often."""

    status: dict[str, list[tuple[int, dict[str, str], bytes]]] = field(default_factory=dict)  # place -> answers to come
    token: str | None = None  # the only one that is accepted
    gated: bool = False
    cut_after: list[int] = field(default_factory=list)  # bytes after which the storage's next answers break off
    expire_s: float = 3600.0  # life of a signed address
    bytes_per_s: float | None = None
    ignore_range: bool = False
    flip: int = 0  # so many answers of the storage have one wrong byte
    hang_s: float = 0.0  # before the storage sends its first byte
    chunked: bool = False  # the storage names no length
    surplus: list[int] = field(default_factory=list)  # bytes too many in the storage's next answers, without a length
    unlisted: bool = False  # as some mirrors: the list of files has neither sizes nor hashes


@dataclass
class Hub:
    """The stub's content, faults, and what it was asked."""

    model: str
    files: dict[str, bytes]
    faults: Faults = field(default_factory=Faults)
    seen: list[str] = field(default_factory=list)  # "GET hub /path range"
    leaked: list[str] = field(default_factory=list)  # tokens that reached the storage
    sent: int = 0  # bytes of large files
    url: str = ""
    storage: str = ""

    def is_large(self, name: str) -> bool:
        return len(self.files[name]) > _LARGE

    def etag(self, name: str) -> str:
        data = self.files[name]
        if self.is_large(name):
            return hashlib.sha256(data).hexdigest()
        return hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()

    def sibling(self, name: str) -> dict[str, Any]:
        if self.faults.unlisted:
            return {"rfilename": name}
        size, etag = len(self.files[name]), self.etag(name)
        found: dict[str, Any] = {"rfilename": name, "size": size, "blobId": etag[:40]}
        return found | ({"lfs": {"sha256": etag, "size": size, "pointerSize": 135}} if self.is_large(name) else {})

    def entry(self, name: str) -> dict[str, Any]:
        size, etag = len(self.files[name]), self.etag(name)
        found: dict[str, Any] = {"type": "file", "path": name, "size": size, "oid": etag[:40]}
        return found | ({"lfs": {"oid": etag, "size": size, "pointerSize": 135}} if self.is_large(name) else {})

    def asked(self, place: str) -> list[str]:
        return [line for line in self.seen if f" {place} " in f"{line} "]


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    place = ""
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._serve(body=False)

    def do_GET(self) -> None:
        self._serve(body=True)

    def _serve(self, body: bool) -> None:
        self.hub.seen.append(f"{self.command} {self.place} {self.path} {self.headers.get('Range', '')}".strip())
        if self.path.startswith("/api/agent-harnesses"):  # the library's own, once a day; nothing of the model's
            return self._send(404, b"", {})
        if waiting := self.hub.faults.status.get(self.place):
            status, headers, text = waiting.pop(0)
            return self._send(status, text if body else b"", headers)
        return self._answer(urlsplit(self.path).path, body)

    def _answer(self, path: str, body: bool) -> None:
        raise NotImplementedError

    def _send(self, status: int, data: bytes, headers: Mapping[str, str], length: int | None = None) -> None:
        """`length`: of the body that somebody else sends. A Transfer-Encoding among the headers: no length is named."""
        chunked = "Transfer-Encoding" in headers
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not chunked:
            self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if data:
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if chunked else data)


class _Front(_Handler):
    """huggingface.co: metadata and addresses."""

    place = "hub"

    def _answer(self, path: str, body: bool) -> None:
        hub = self.hub
        sent = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
        if sent and hub.faults.token and sent != hub.faults.token:
            words = "Invalid credentials in Authorization header"
            return self._send(401, b'{"error":"x"}', {"X-Error-Message": words})
        if match := re.fullmatch(rf"/api/models/{hub.model}(?:/revision/([^/]+)|/tree/([^/]+))?", path):
            if (match[1] or match[2] or "main") not in ("main", COMMIT):
                return self._refuse(404, "RevisionNotFound", "Invalid rev id")
            names = hub.files
            info = {"id": hub.model, "sha": COMMIT, "siblings": [hub.sibling(name) for name in names]}
            data: Any = [hub.entry(name) for name in names] if match[2] else info
            return self._send(200, json.dumps(data).encode() if body else b"", {"Content-Type": "application/json"})
        match = re.fullmatch(rf"/{hub.model}/resolve/([^/]+)/(.+)", path)
        if not match:
            return self._refuse(404 if sent else 401, "RepoNotFound", "Repository not found")
        if hub.faults.gated and (not sent or hub.faults.token is None):
            return self._refuse(403 if sent else 401, "GatedRepo", f"Access to model {hub.model} is restricted.")
        if match[2] not in hub.files:
            return self._refuse(404, "EntryNotFound", "Entry not found")
        return self._resolve(match[2], body)

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._send(status, b'{"error":"x"}', {"X-Error-Code": code, "X-Error-Message": message})

    def _resolve(self, name: str, body: bool) -> None:
        data, etag = self.hub.files[name], self.hub.etag(name)
        common = {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if not self.hub.is_large(name):
            headers = {**common, "ETag": f'"{etag}"', "Content-Type": "text/plain"}
            return self._send(200, data if body else b"", headers, len(data))
        expires = time.time() + self.hub.faults.expire_s
        return self._send(302, b"", {
            **common, "X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{etag}"', "ETag": f'"{etag}"',
            "Location": f"{self.hub.storage}/{name}?Expires={expires}",
        })  # fmt: skip


class _Storage(_Handler):
    """The host that signed addresses lead to."""

    place = "storage"

    def _answer(self, path: str, body: bool) -> None:
        hub, faults = self.hub, self.hub.faults
        if token := self.headers.get("Authorization"):
            hub.leaked.append(token)
        if float(parse_qs(urlsplit(self.path).query)["Expires"][0]) < time.time():
            return self._send(403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
                              {"Content-Type": "application/xml"})  # fmt: skip
        data = hub.files[path.lstrip("/")]
        start = 0
        if (match := re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))) and not faults.ignore_range:
            start = int(match[1])
        if start >= len(data):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        time.sleep(faults.hang_s)
        rest = data[start:]
        if faults.flip:
            faults.flip -= 1
            rest = bytes([rest[0] ^ 1]) + rest[1:]
        ranged = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        surplus = faults.surplus.pop(0) if faults.surplus else 0
        unnamed = {"Transfer-Encoding": "chunked"} if surplus or faults.chunked else {}
        headers = {"Content-Type": "application/octet-stream", **ranged, **unnamed}
        self._send(206 if start else 200, b"", headers, len(rest))
        rest += b"!" * surplus
        self._stream(rest[: faults.cut_after.pop(0)] if faults.cut_after else rest, len(rest), bool(unnamed))
        return None

    def _stream(self, data: bytes, promised: int, chunked: bool) -> None:
        speed = self.hub.faults.bytes_per_s
        step = len(data) if not speed else max(1, int(speed / 20))
        for at in range(0, len(data), step or 1):
            block = data[at : at + step]
            if not self._put(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block):
                return
            self.hub.sent += len(block)
            if speed:
                time.sleep(0.05)
        if len(data) < promised:
            self.close_connection = True
        elif chunked:
            self._put(b"0\r\n\r\n")

    def _put(self, data: bytes) -> bool:
        """Whether whoever asked is still there."""
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True
            return False
        return True


@contextmanager
def running(hub: Hub, bind: str = "127.0.0.1", host: str = "", tls: tuple[Path, Path] | None = None) -> Iterator[Hub]:
    """Both hosts of the stub, until the block ends. `bind`: the address; `host`: its name for whoever asks; `tls`:
    certificate and key.
    """
    servers = [ThreadingHTTPServer((bind, 0), type(kind.__name__, (kind,), {"hub": hub}))
               for kind in (_Front, _Storage)]  # fmt: skip
    scheme = "https" if tls else "http"
    hub.url, hub.storage = (f"{scheme}://{host or bind}:{server.server_address[1]}" for server in servers)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        for server in servers:
            server.socket = context.wrap_socket(server.socket, server_side=True)
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def shard(tensors: Mapping[str, int], fill: bytes = b"") -> bytes:
    """A safetensors file of byte tensors, with content that differs from place to place."""
    header, at = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    body = hashlib.shake_256(fill or text).digest(at)
    return len(text).to_bytes(8, "little") + text + body


def tiny(size: int = 200_000) -> dict[str, bytes]:
    """A model of two shards and an index, by nobody's architecture."""
    shards = {"model-00001-of-00002.safetensors": {"a": size}, "model-00002-of-00002.safetensors": {"b": size // 2}}
    weights = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    index = {"metadata": {"total_size": size + size // 2}, "weight_map": weights}
    return {
        **{name: shard(tensors) for name, tensors in shards.items()},
        "model.safetensors.index.json": json.dumps(index).encode(),
        "config.json": b'{"model_type": "tiny"}',
        "tokenizer.json": b'{"version": "1.0"}',
        "README.md": b"not needed",
    }


def of_folder(folder: Path) -> dict[str, bytes]:
    """The files of a real model's folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
