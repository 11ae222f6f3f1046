"""The canary against a scripted router: which answers pass, which are confirmed failures, which are neither."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from dsv4_pd.plan.guard import warm_up
from dsv4_pd.plan.guard.config import GuardConfig, ServerConfig
from dsv4_pd.run.guard.ask import workers
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.prove import canary
from dsv4_pd.run.guard.prove.canary import CanaryResult
from dsv4_pd.settings.fields import CONTEXT_MIN
from guard.appliance import Appliance

CHOICES = {"choices": [{"text": "x", "finish_reason": "length"}]}
ABORTED = {"choices": [{"text": "", "finish_reason": "abort"}]}


def test_the_shortest_context_has_room_for_what_the_guard_sends(tmp_path: Path) -> None:
    """A byte is at most a token; one more may begin the prompt."""
    body = canary._body(Appliance(tmp_path).config)
    assert len(body["prompt"].encode()) + 1 + body["max_tokens"] <= CONTEXT_MIN
    for kinds in (warm_up.classes(8192, CONTEXT_MIN, 64), warm_up.few(CONTEXT_MIN, 16)):
        assert kinds and kinds[0].name == "short prompt"


@dataclass
class Answers:
    """What each path answers: status and body; seconds before the completion comes."""

    completion: tuple[int, object] = (200, CHOICES)
    seconds: float = 0.0
    others: dict[str, tuple[int, object]] = field(default_factory=dict)


@contextmanager
def answering(answers: Answers, folder: Path) -> Iterator[GuardConfig]:
    """A configuration in which router, servers and bootstrap port are one process that answers as told."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            listed = {"workers": [workers.entry(server, None) | {"id": server.name, "is_healthy": True}
                                  for server in servers]}  # fmt: skip
            default = listed if self.path == "/workers" else {"healthy_workers": 2}
            self.say(*answers.others.get(self.path, (200, default)))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(answers.seconds)
            self.say(*answers.completion)

        def say(self, status: int, body: object) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    servers = (
        ServerConfig("prefill", f"{url}/p", "log", bootstrap_url=f"{url}/b"),
        ServerConfig("decode", f"{url}/d", "log"),
    )
    config = Appliance(folder).config
    try:
        yield GuardConfig(**{**{name: getattr(config, name) for name in config.__slots__}, "servers": servers,
                             "router_url": url, "front_url": url})  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()


def send(answers: Answers, folder: Path, bound: float = 5.0) -> CanaryResult:
    async def once(config: GuardConfig) -> CanaryResult:
        probes = Probes(None)
        try:
            return await canary.send(config, probes, bound)
        finally:
            await probes.close()

    with answering(answers, folder) as config:
        return asyncio.run(once(config))


def test_an_answer_with_choices_passes(tmp_path: Path) -> None:
    result = send(Answers(), tmp_path)
    assert (result.passed, result.confirmed, result.queued) == (True, False, False)


def test_a_front_without_a_free_connection_is_neither(tmp_path: Path) -> None:
    """Clients that hold all of them open break no path."""
    result = send(Answers((503, {"error": {"message": "x", "code": "too_many_connections"}})), tmp_path)
    assert (result.passed, result.confirmed, result.queued) == (False, False, True)


@pytest.mark.parametrize("key", ["", "the guard's own"])
def test_the_canary_brings_the_guards_key_at_the_front_and_no_probe_does(tmp_path: Path, key: str) -> None:
    heard: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            heard.append((self.path, self.headers["Authorization"]))
            self.send_response_only(503)
            self.send_header("Server", "dsv4-pd")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"

    async def both() -> None:
        probes = Probes("the client's", "the router's", key)
        assert (await probes.front(url))[0].value == "yes", "an answer of any status is an answer"
        await probes.ask(f"{url}/v1/completions", {})
        await probes.close()

    try:
        asyncio.run(both())
    finally:
        server.shutdown()
        server.server_close()
    assert heard == [("/livez", ""), ("/v1/completions", f"Bearer {key or 'the client' + chr(39) + 's'}")]


@pytest.mark.parametrize("status", [408, 429])
def test_a_full_queue_is_neither_a_pass_nor_a_failure(tmp_path: Path, status: int) -> None:
    result = send(Answers((status, {"error": "queue full"})), tmp_path)
    assert (result.passed, result.confirmed, result.queued) == (False, False, True)


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        ((200, {"error": "x"}), "link from prefill to decode: an answer that did not come to an end"),
        ((200, ABORTED), "link from prefill to decode: an answer that did not come to an end"),
        ((200, {"choices": None, "error": "x"}), None),
        ((200, {"choices": [], "error": "x"}), None),
        ((500, {"error": "aborted"}), "link from prefill to decode: status 500"),
        ((503, {"error": "timed out"}), "link from prefill to decode: status 503"),
        ((502, {"error": {"code": "decode_server_error"}}), "decode: answered an error (502)"),
        ((502, {"error": {"code": "prefill_server_error"}}), "prefill: answered an error (502)"),
        ((404, {"error": "no such model"}), "request: refused with 404"),
    ],
)
def test_a_failure_between_ready_servers_is_confirmed_and_names_the_hop(
    tmp_path: Path, completion: tuple[int, object], words: str | None
) -> None:
    result = send(Answers(completion), tmp_path)
    assert (result.passed, result.confirmed, result.unanswered) == (False, True, False)
    assert words is None or result.failure == words


def test_no_answer_within_its_own_bound_is_a_confirmed_failure(tmp_path: Path) -> None:
    """However long the servers may wait for each other (DSV4_LINK_TIMEOUT)."""
    result = send(Answers(seconds=3), tmp_path, bound=0.5)
    assert (result.confirmed, result.unanswered) == (True, True)
    assert result.failure == "link from prefill to decode: no answer within 0 s"
    assert result.seconds < 2


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/p/ready", "prefill: /ready says no"),
        ("/d/ready", "decode: /ready says no"),
        ("/b/health", "prefill: bootstrap port does not answer"),
        ("/readiness", "router: "),
    ],
)
def test_a_server_that_says_no_itself_is_named_and_no_failure_is_confirmed(
    tmp_path: Path, path: str, words: str
) -> None:
    result = send(Answers((503, {}), others={path: (503, {})}), tmp_path)
    assert (result.passed, result.confirmed) == (False, False)
    assert result.failure.startswith(words)
