"""verify, bench and status reach this machine past every proxy, and read streams as they come."""

from __future__ import annotations

import asyncio
import json
import socket as sockets
import threading
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import httpx2
import pytest
from dsv4_pd.bench import load
from dsv4_pd.client import child, http
from dsv4_pd.client.api import Api
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.run.supervision import rpc

EVENTS = [
    {"choices": [{"delta": {"content": "a\u2028b\x85c"}}]},  # characters at which str.splitlines would cut
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"completion_tokens": 3}},
]


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/status" else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"state": "LOADING", "path": self.path}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != "Bearer k":
            self.send_response(401)
            self.end_headers()
            self.wfile.write(b"no key")
            return
        self.send_response(200)
        self.end_headers()
        if body["stream"]:
            for event in EVENTS:
                self.wfile.write(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\r\n\r\n")
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")
        else:
            self.wfile.write(json.dumps({"choices": [{"message": {"content": "hi"}}]}).encode())


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server on loopback, while the environment sends everything to a proxy that is not there."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "corp")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_whole_answers_and_streams_and_refusals(url: str) -> None:
    api = Api(url, "m", "k")
    assert (api.chat("x").content, api.chat("x").status) == ("hi", 200)
    streamed = api.chat("x", stream=True)
    assert (streamed.content, streamed.done, streamed.finish_reason) == ("a\u2028b\x85c", True, "stop")
    assert streamed.usage == {"completion_tokens": 3}
    refused = api.with_key(None).complete("x")
    assert (refused.status, refused.error, refused.done) == (401, "no key", False)


def test_nobody_there_is_an_answer_too() -> None:
    reply = Api("http://127.0.0.1:9", "m").chat("x")
    assert (reply.status, reply.done) == (0, False) and "ConnectError" in reply.error
    with pytest.raises(ApplianceError, match="no appliance answers"):
        Ops("http://127.0.0.1:9").status()
    for wrong in ("box:8001", "", "http://[::1"):
        with pytest.raises(ApplianceError, match="no appliance answers"):
            Ops(wrong).status()


def test_the_ops_port_says_more_than_its_status_code(url: str) -> None:
    assert Ops(url).status() == {"state": "LOADING", "path": "/status"}
    assert child._answers(f"{url}/readyz") and not child._answers(f"{url}/status")
    assert not child._answers("http://127.0.0.1:9/readyz")


def test_elsewhere_the_environments_proxy_is_used(url: str) -> None:
    with http.client("http://box.example:8001", 5.0) as away, pytest.raises(httpx2.ConnectError, match="refused"):
        away.get("http://box.example:8001/status")  # by the proxy's port; the name is nobody's


@pytest.mark.parametrize(("listed", "expected"), [("", "127.0.0.1"), ("corp", "corp,127.0.0.1")])
def test_the_load_generator_is_told_to_leave_the_proxy_alone(listed: str, expected: str) -> None:
    assert load._straight("http://127.0.0.1:8000", {"NO_PROXY": listed})["no_proxy"] == expected
    assert load._straight("https://box.example", {"NO_PROXY": listed}) == {}


class Unix(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def get_request(self):  # type: ignore[no-untyped-def]
        request, _ = super().get_request()
        return request, ("local", 0)


class Supervisord(BaseHTTPRequestHandler):
    """One call and one refusal, encoded as supervisord does."""

    refusal = (10, "BAD_NAME")

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        arguments, method = xmlrpc.client.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = method == "supervisor.getProcessInfo" and arguments == ("guard",)
        process = {"name": "guard", "statename": "RUNNING", "pid": 42, "exitstatus": 0}
        answer = (process,) if known else xmlrpc.client.Fault(*self.refusal)
        text = xmlrpc.client.dumps(answer, methodresponse=True).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def supervisord(socket: Path, handler: type[Supervisord] = Supervisord) -> Iterator[None]:
    server = Unix(str(socket), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def test_supervisord_is_asked_over_its_socket(tmp_path: Path) -> None:
    """tests/guard runs the guard's calls against the real one."""
    socket = tmp_path / "s.sock"
    with supervisord(socket):
        assert rpc.Waiting(socket).process("guard") == rpc.Process("guard", "RUNNING", 42, 0)
        with pytest.raises(xmlrpc.client.Fault, match="BAD_NAME"):
            rpc.Waiting(socket).process("other")
    with pytest.raises(rpc.UNREACHABLE):
        rpc.Waiting(tmp_path / "none.sock").process("guard")


class ShuttingDown(Supervisord):
    refusal = (6, "SHUTDOWN_STATE")


async def test_one_that_shuts_down_has_no_answer_and_nothing_against_an_act(tmp_path: Path) -> None:
    """An empty answer would be taken for a list of programs."""
    socket = tmp_path / "s.sock"
    with supervisord(socket, ShuttingDown):
        asked = rpc.Supervisor(str(socket))
        try:
            with pytest.raises(xmlrpc.client.Fault, match="SHUTDOWN_STATE"):
                await asked.processes()
            await asked.start("router")
            await asked.shutdown()
        finally:
            await asked.close()
        with pytest.raises(rpc.FAILURES):
            rpc.Waiting(socket).start("guard")


def test_a_supervisord_that_is_stopped_does_not_stop_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "AWAITED_S", 0.2)
    with sockets.socket(sockets.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "s.sock"))
        deaf.listen()
        with pytest.raises(rpc.UNREACHABLE):
            asyncio.run(rpc.Supervisor(str(tmp_path / "s.sock")).processes())


def test_an_appliance_of_our_own_has_ports_for_any_layout() -> None:
    """Further members' ports are derived from the first one's, and nobody may have them, not even another member."""
    for _ in range(5):
        ports = [int(port) for port in child._ports().values()]
        rows = [{port + 10 * number for number in range(9)} for port in ports]
        assert len(set().union(*rows)) == 9 * len(rows) and max(max(row) for row in rows) < 65536
