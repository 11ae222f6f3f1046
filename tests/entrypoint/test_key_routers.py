"""Whatever key the settings accept, both real routers let exactly that key through, and the worker gets it as it is."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from dsv4_pd.settings.fields import KEY_MAX, UnusableKey, sendable
from pydantic import SecretStr
from support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "entrypoint/dsv4_pd/run/supervision/launch.py"
MODULES = {"router": "sglang_router.launch_router", "smg": "smg.launch_router"}
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
ACCEPTED = {"every printable character": f"{PRINTABLE[:40]} {PRINTABLE[40:]}  x", "longest": "k" * KEY_MAX, "one": "-"}
REFUSED = {"blank at the end": "abc ", "letters": "schlüssel", "byte order mark": "\ufeffabc"}


class Worker(ThreadingHTTPServer):
    """Answers whatever a router asks of a server. It hides everything but the header; the routers are real."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[str | None] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Worker

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer({"status": "ok", "model_path": "stub", "served_model_name": "stub", "data": [{"id": "stub"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(self.headers.get("Authorization"))
        self.answer({"id": "x", "object": "text_completion", "model": "stub", "choices": [{"index": 0, "text": "ok"}]})

    def answer(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker() as running:
        yield running
        running.shutdown()


@contextmanager
def router(venv: str, key: str, worker: Worker, folder: Path) -> Iterator[int]:
    """The port of a real router that asks for this key, started as the appliance starts it."""
    (folder / "key").write_text(key, encoding="utf-8", newline="")
    port, metrics = free_ports(2)
    python = Path(os.environ.get("TEST_VENVS", ROOT / ".venvs")) / venv / "bin" / "python"
    words = [python, LAUNCH, MODULES[venv], "--api-key-file", folder / "key", "--", "--host", "127.0.0.1",
             "--port", port, "--worker-urls", f"http://127.0.0.1:{worker.server_port}",
             "--health-check-endpoint", "/ready", "--worker-startup-check-interval", 1,
             "--prometheus-port", metrics, "--log-level", "warn"]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(list(map(str, words)), env={"PATH": os.environ["PATH"]}, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while ask(port, "GET", "/readiness", None) != 200:
            assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield port
    finally:
        process.kill()
        process.wait()


def ask(port: int, method: str, path: str, key: bytes | None) -> int:
    """The status of a request with these very bytes as its key; 0 when nobody answers."""
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: x", b"Connection: close"]
    body = json.dumps({"model": "stub", "prompt": "x"}).encode() if method == "POST" else b""
    lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    lines += [b"Authorization: Bearer " + key] if key is not None else []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.connect()
        connection.sock.sendall(b"\r\n".join([*lines, b"", body]))
        response = http.client.HTTPResponse(connection.sock)
        response.begin()
        return response.status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.pair
@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("venv", MODULES)
def test_an_accepted_key_opens_the_router_and_no_other_does(
    venv: str, name: str, worker: Worker, tmp_path: Path
) -> None:
    key = ACCEPTED[name]
    assert sendable(SecretStr(key)).get_secret_value() == key
    others = {f"{key}x", key[:-1], key.swapcase(), f"{key}{key[-1]}", " ".join(key), ""} - {key}
    with router(venv, key, worker, tmp_path) as port:
        assert ask(port, "POST", "/v1/completions", key.encode()) == 200
        assert worker.seen == [f"Bearer {key}"]
        statuses = {ask(port, "POST", "/v1/completions", other.encode()) for other in others}
        assert ask(port, "POST", "/v1/completions", None) == 401
        assert statuses <= {401, 431}, "431: too long for any header"
    assert len(worker.seen) == 1


@pytest.mark.pair
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("venv", MODULES)
def test_a_refused_key_would_have_shut_everybody_out(venv: str, name: str, worker: Worker, tmp_path: Path) -> None:
    """Why each is refused; should a router begin to take one, the settings may follow."""
    key = REFUSED[name]
    with pytest.raises(UnusableKey):
        sendable(SecretStr(key))
    with router(venv, key, worker, tmp_path) as port:
        spellings = {key.encode(), key.strip().encode(), key.encode("latin-1", "replace")}
        assert {ask(port, "POST", "/v1/completions", spelt) for spelt in spellings} <= {400, 401}
