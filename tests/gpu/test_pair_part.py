"""How the part `pair` counts, against a server of our own: nothing of the product runs here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpu import machine
from gpu.parts import answers, pair


class Dying(BaseHTTPRequestHandler):
    """Answers once the server is told to; every request then ends with 502."""

    killed = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.killed.wait(20)
        self.send_response(502)
        self.end_headers()
        self.wfile.write(b"decode is gone")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Dying.killed.clear()
    running = ThreadingHTTPServer(("127.0.0.1", 0), Dying)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    monkeypatch.setattr(pair, "API", f"http://127.0.0.1:{running.server_port}")
    yield
    running.shutdown()


def test_requests_in_flight_are_timed_from_the_kill(server: None) -> None:
    requests = pair.Requests()
    for name in ("a", "b"):
        requests.send(name)
    time.sleep(0.5)
    begun = time.monotonic()
    Dying.killed.set()
    requests.send("after")
    found = requests.ended(begun)
    assert sorted(item["request"] for item in found) == ["a", "after", "b"]
    assert {item["status"] for item in found} == {502}
    assert all(0 <= item["ended"] < 10 for item in found) and "decode is gone" in found[0]["answer"]


def test_what_is_served_in_spite_of_the_kill_is_no_failure() -> None:
    found = [{"status": 200, "ended": 56.4}, {"status": 502, "ended": 0.2}, {"status": 503, "ended": 4.0}]
    assert pair.failed_last(found) == 4.0
    assert pair.failed_last(found[:1]) == 0.0


def test_memory_that_stays_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_used", lambda: [500, 0])
    assert pair.clean([450, 0], 64)
    assert not pair.clean([0, 0], 64)


def test_an_answer_s_least_gap_is_between_its_two_likeliest_tokens() -> None:
    tops = [[{"logprob": -0.1}, {"logprob": -3.1}], [{"logprob": -0.5}, {"logprob": -0.9}], [{"logprob": 0.0}]]
    content = [{"top_logprobs": top} for top in tops]
    message = {"choices": [{"message": {"content": "Paris"}, "logprobs": {"content": content}}]}
    text, gap = answers.said(message)
    assert text == "Paris" and gap == pytest.approx(0.4)
    assert answers.said({"choices": [{"message": {"content": None}}]}) == ("", 0.0)


def test_profiles_follow_the_number_of_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "facts", lambda: {"cards": [{}]})
    assert pair.profile() == "ring-one-card"
    monkeypatch.setattr(machine, "facts", lambda: {"cards": [{}, {}]})
    assert pair.profile() == "ring-two-cards"
