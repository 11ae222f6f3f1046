"""The kept load generator with a trace: lengths and arrivals are those asked for, as a server sees them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import VENVS
from dsv4_pd.bench.load import Target, run
from dsv4_pd.bench.tune.workload import Ask, Workload
from dsv4_pd.plan.disk.paths import share_dir

pytestmark = pytest.mark.engine
ASKS = (Ask(0.0, 40, 5), Ask(0.3, 400, 3), Ask(1.5, 12, 9))


class Server(ThreadingHTTPServer):
    """Writes as many pieces as it is asked for, and keeps what it was asked. It hides how long a real answer takes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[float, int, int]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((time.monotonic(), len(body["prompt"].split()), body["max_tokens"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for _ in range(body["max_tokens"]):
            self.wfile.write(b'data: {"choices": [{"index": 0, "text": "a"}]}\n\n')
            self.wfile.flush()
            time.sleep(0.01)
        self.wfile.write(b"data: [DONE]\n\n")

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    threading.Thread(target=one.serve_forever, daemon=True).start()
    yield one
    one.shutdown()
    one.server_close()


def sent(server: Server, work: Workload, folder: Path) -> list[tuple[float, int, int]]:
    trace = folder / "trace.jsonl"
    trace.write_text(work.text())
    url = f"http://127.0.0.1:{server.server_address[1]}"
    target = Target(url, "m", str(share_dir() / "demo/model"), VENVS / "engine/bin/python")
    load = work.load("x", trace, 3)
    found = run([load], target)["x"]
    assert len(found) == len(work.asks) and all(request.ok for request in found), found
    assert sorted(len(request.itls) + 1 for request in found) == sorted(ask.output for ask in work.asks)
    return sorted(server.asked)


def test_an_open_trace_arrives_as_it_says(server: Server, tmp_path: Path) -> None:
    asked = sent(server, Workload("mine", ASKS, 1, open=True), tmp_path)
    assert [most for _, _, most in asked] == [5, 3, 9]
    first = asked[0][0]
    assert all(at - first >= ask.at_s - 0.15 for (at, _, _), ask in zip(asked, ASKS, strict=True)), asked
    assert asked[1][1] > asked[0][1] > asked[2][1], "prompts are as long as they should be, one against another"


def test_a_closed_one_sends_the_next_when_one_has_ended(server: Server, tmp_path: Path) -> None:
    asked = sent(server, Workload("mine", ASKS, 1), tmp_path)
    assert sorted(most for _, _, most in asked) == [3, 5, 9]
    took = {5: 0.05, 3: 0.03, 9: 0.09}
    for (before, _, most), (after, _, _) in pairwise(asked):
        assert after - before >= took[most] * 0.9, "one at a time"
