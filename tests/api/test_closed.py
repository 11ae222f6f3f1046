"""What a router could do for a client beyond passing requests on: nothing without a key, and it asks nobody else.

smg brings an agent's whole household: stored answers and conversations, servers of tools (MCP) that it calls itself,
voice over WebSocket and WebRTC, plugins (wasm), tokenizers, a mesh of routers, files. What is not switched off must ask
for the client's key, and whatever a client names as an address must not be asked by the router.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from api.administration import CLIENT, Router, Worker, router
from api.conftest import Routed
from api.fronts import ROUTERS

pytestmark = pytest.mark.pair

HI = [{"role": "user", "content": "hi"}]
STORED = [
    ("GET", "/v1/responses/x"), ("DELETE", "/v1/responses/x"), ("POST", "/v1/responses/x/cancel"),
    ("GET", "/v1/responses/x/input_items"), ("POST", "/v1/conversations"), ("GET", "/v1/conversations/x"),
    ("POST", "/v1/conversations/x"), ("DELETE", "/v1/conversations/x"), ("GET", "/v1/conversations/x/items"),
    ("POST", "/v1/conversations/x/items"), ("GET", "/v1/conversations/x/items/y"),
    ("DELETE", "/v1/conversations/x/items/y"),
]  # fmt: skip
VOICE = [
    ("GET", "/v1/realtime?model=stub"), ("POST", "/v1/realtime/calls"), ("POST", "/v1/realtime/sessions"),
    ("POST", "/v1/realtime/client_secrets"), ("POST", "/v1/realtime/transcription_sessions"),
    ("POST", "/v1/audio/transcriptions"), ("POST", "/v1/audio/speech"),
]  # fmt: skip
OTHERS = [
    ("POST", "/v1/tokenize"), ("POST", "/v1/detokenize"), ("POST", "/rerank"), ("POST", "/v1/rerank"),
    ("POST", "/v1/embeddings"), ("POST", "/v1/classify"), ("POST", "/v1/interactions"), ("POST", "/generate"),
    ("POST", "/v1/messages/count_tokens"), ("POST", "/v1/messages"), ("POST", "/v1/responses"),
]  # fmt: skip
# Of other versions or other modes of smg; where one appears, it must be looked at.
ABSENT = [("POST", "/v1/files"), ("GET", "/v1/files"), ("POST", "/v1/batches"), ("GET", "/v1/skills"),
          ("POST", "/v1/skills"), ("POST", "/v1/images/generations"), ("POST", "/v1/mcp"), ("GET", "/mcp"),
          ("GET", "/metrics"), ("GET", "/workers/x/engine/flush_cache"), ("POST", "/workers/x/engine/flush_cache"),
          ("GET", "/debug/pprof"), ("POST", "/v1/vector_stores")]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), [*STORED, *VOICE, *OTHERS], ids=lambda part: part)
@pytest.mark.parametrize("routed", [(kind, CLIENT) for kind in ROUTERS], ids=ROUTERS, indirect=True)
def test_nobody_is_answered_without_the_key(routed: Routed, method: str, path: str) -> None:
    running, _ = routed
    for used in (None, "another"):
        got = running.call(method, path, {} if method == "POST" else None, used)
        assert got.status_code in (401, 404), (used, got.text)


@pytest.mark.parametrize(("method", "path"), ABSENT, ids=lambda part: part)
def test_what_is_not_there(routed: Routed, method: str, path: str) -> None:
    running, key = routed
    assert running.call(method, path, {} if method == "POST" else None, key).status_code in (404, 405)


@pytest.mark.parametrize(("method", "path"), VOICE, ids=lambda part: part)
def test_no_voice(routed: Routed, method: str, path: str) -> None:
    """None of it opens a socket of its own or a session that outlives the request."""
    running, key = routed
    got = running.call(method, path, {"model": "stub"} if method == "POST" else None, key)
    assert got.status_code in (400, 404, 405, 415, 422, 501), got.text


class Stranger:
    """A server whose address a client names; notes every connection, whatever comes over it."""

    def __enter__(self) -> Stranger:
        heard = self.heard = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def handle(self) -> None:
                heard.append(self.request.recv(200).decode("latin-1"))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


def naming(url: str) -> list[tuple[str, dict[str, Any]]]:
    """Requests that name an address: servers of tools, pictures, files, callbacks, hosts of the KV link."""
    tools = [{"type": "mcp", "server_label": "x", "server_url": f"{url}/mcp", "require_approval": "never"}]
    picture = [{"type": "image_url", "image_url": {"url": f"{url}/i.png"}}]
    given = [{"type": "input_image", "image_url": f"{url}/i.png"}, {"type": "input_file", "file_url": f"{url}/f"}]
    servers = [{"type": "url", "url": f"{url}/mcp", "name": "x", "authorization_token": "t"}]
    toolset = [{"type": "mcp_toolset", "mcp_server_name": "x"}]
    shown = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": f"{url}/i.png"}}]}]
    host, port = url.removeprefix("http://").split(":")
    return [
        ("/v1/responses", {"model": "stub", "input": "hi", "tools": tools}),
        ("/v1/responses", {"model": "stub", "input": "hi", "tools": tools, "stream": True}),
        ("/v1/responses", {"model": "stub", "input": "hi", "tools": tools, "background": True, "store": True}),
        ("/v1/responses", {"model": "stub", "input": [{"role": "user", "content": given}]}),
        ("/v1/messages", {"model": "stub", "max_tokens": 5, "messages": HI, "mcp_servers": servers, "tools": toolset}),
        ("/v1/messages", {"model": "stub", "max_tokens": 5, "messages": shown}),
        ("/v1/chat/completions", {"model": "stub", "messages": [{"role": "user", "content": picture}]}),
        ("/v1/chat/completions", {"model": "stub", "messages": HI, "tools": tools, "web_search_options": {}}),
        ("/v1/completions", {"model": "stub", "prompt": "x", "bootstrap_host": host, "bootstrap_port": int(port)}),
        ("/v1/interactions", {"model": "stub", "input": "hi", "tools": tools}),
        ("/v1/realtime/calls", {"sdp": f"c=IN IP4 {host}", "session": {"model": "stub"}}),
        ("/generate", {"text": "x", "image_data": f"{url}/i.png"}),
    ]


def nobody_was_asked(running: Router, key: str | None, stranger: Stranger) -> None:
    for path, body in naming(stranger.url):
        running.call("POST", path, body, key)
        assert stranger.heard == [], (path, body)


def test_no_address_of_a_client_is_asked(routed: Routed) -> None:
    running, key = routed
    with Stranger() as stranger:
        nobody_was_asked(running, key, stranger)
    assert running.process.poll() is None and len(running.workers()) == 2


@pytest.fixture(scope="module", params=ROUTERS)
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Router]:
    """Before one server: smg does more for its clients there than before a pair."""
    with Worker("single") as worker, Worker("nobody") as nobody:
        settings = {"DSV4_LAYOUT": "single"}
        with router(tmp_path_factory.mktemp("alone"), request.param, (worker, nobody), None, **settings) as running:
            yield running


def test_no_address_is_asked_for_a_single_server_either(alone: Router) -> None:
    assert alone.complete().status_code == 200
    with Stranger() as stranger:
        nobody_was_asked(alone, None, stranger)
