"""The counters that the guard reads, on the real engines and on their stand-ins: what moves, and what must not.

Each case is sent through a router, to the real pair and to the stubs of tests/guard; both must count it alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.guard.ask import traffic
from dsv4_pd.run.guard.ask.probes import samples
from dsv4_pd.run.guard.senses.answers import TOKENS
from dsv4_pd.run.guard.watch import tree
from guard import appliance as stubs
from support.pair import VENVS, Pair
from support.ports import free_ports

pytestmark = [pytest.mark.pair, pytest.mark.slow]

REQUESTS, ABORTED = "sglang:num_requests_total", "sglang:num_aborted_requests_total"
COUNTERS = (REQUESTS, ABORTED, traffic.CROSSED)
ROLES = ("prefill", "decode")


@dataclass(frozen=True)
class Case:
    """A request, and by how much it moves each counter of prefill and decode."""

    body: dict[str, Any]
    leaves: bool
    prefill: tuple[int, int, int]
    decode: tuple[int, int, int]


LONG = {"max_tokens": 2500, "min_tokens": 2400}
CASES = {
    "answered": Case({"max_tokens": 4, "min_tokens": 4}, False, (1, 0, 0), (1, 0, 1)),
    "answered with one token": Case({"max_tokens": 1}, False, (1, 0, 0), (1, 0, 1)),
    "refused": Case({"max_tokens": -1}, False, (0, 0, 0), (0, 0, 0)),
    "left while decode answered": Case(LONG, True, (1, 0, 0), (1, 1, 1)),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Without a guard, whose own requests would move what is counted."""
    with Pair(tmp_path_factory.mktemp("counters")) as running:
        yield running


@pytest.fixture(scope="module", params=["sglang-router", "smg"])
def api(pair: Pair, request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a router of either kind before the same pair."""
    if request.param == "sglang-router":
        yield pair.api
        return
    port, metrics = free_ports(2)
    own = {str(pair.api): str(port), str(pair.router_metrics): str(metrics)}
    arguments = [own.get(word, word) for word in pair._router_arguments()]
    command = ["setpriv", "--pdeathsig", "KILL", str(VENVS / "smg/bin/python"), "-m", "smg.launch_router", *arguments]
    with pair.log("smg").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=pair.environment)
    try:
        wait_for_router(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def wait_for_router(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readiness", timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    raise AssertionError("the router does not find the pair")


def send(port: int, case: Case, model: str, wait: float = 60.0) -> None:
    body = json.dumps({"model": model, "prompt": f"hello {time.time()}", "temperature": 0, **case.body}).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if case.leaves:
            time.sleep(1.0)
            return
        with contextlib.suppress(TimeoutError):
            while client.recv(65536):
                pass


def moved(read: Callable[[str], dict[str, float]], act: Callable[[], None]) -> dict[str, tuple[int, ...]]:
    """By how much an act moves the counters of each server, once they stand still."""

    def snapshot() -> list[tuple[float, ...]]:
        return [tuple(read(role).get(name, 0.0) for name in COUNTERS) for role in ROLES]

    before = snapshot()
    act()
    last, until = snapshot(), time.monotonic() + 20
    while time.monotonic() < until:
        time.sleep(3.0)
        now = snapshot()
        if now == last and now != before:
            break
        last = now
        if time.monotonic() > until - 12 and now == before:
            break  # a refusal moves nothing
    return {
        role: tuple(int(b - a) for a, b in zip(*pair, strict=True))
        for role, pair in zip(ROLES, zip(before, last, strict=True), strict=True)
    }


def counters(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as got:
        return samples(got.read().decode())


def of(pair: Pair) -> Callable[[str], dict[str, float]]:
    return lambda role: counters(pair.prefill if role == "prefill" else pair.decode)


@pytest.mark.parametrize("name", CASES)
def test_the_real_engines(pair: Pair, api: int, name: str) -> None:
    case = CASES[name]
    found = moved(of(pair), lambda: send(api, case, "dsv4-demo"))
    assert found == {"prefill": case.prefill, "decode": case.decode}


def test_the_real_health_check_moves_none_of_them(pair: Pair) -> None:
    def ask() -> None:
        for port in (pair.prefill, pair.decode):
            assert pair.get(f"http://127.0.0.1:{port}/health")[0] == 200

    assert moved(of(pair), ask) == {"prefill": (0, 0, 0), "decode": (0, 0, 0)}


def test_a_request_whose_kv_never_crosses_is_counted_as_finished_and_proves_nothing(pair: Pair) -> None:
    """Prefill's scheduler stands still; decode gives the request up by itself after its ten seconds."""
    (stopped,) = tree.workers(tree.members(pair._running[0].pid)) - detokenizers(pair)
    os.kill(stopped, signal.SIGSTOP)
    try:
        case = Case({"max_tokens": 4}, False, (0, 0, 0), (1, 0, 0))
        found = moved(of(pair), lambda: send(pair.api, case, "dsv4-demo", wait=14))
        assert found["decode"][0] >= 1, "the engine counts its end among the requests"
        assert found["decode"][2] == 0
    finally:
        os.kill(stopped, signal.SIGCONT)


def detokenizers(pair: Pair) -> set[int]:
    who = tree.workers(tree.members(pair._running[0].pid))
    return {pid for pid in who if b"detokenizer" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_a_long_prompt_moves_the_real_prefill_s_tokens(pair: Pair) -> None:
    before = counters(pair.prefill).get(TOKENS, 0.0)
    pair.post("/v1/completions", {"model": "dsv4-demo", "prompt": "word " * 500, "max_tokens": 2})
    assert counters(pair.prefill)[TOKENS] - before >= 500


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stubs.Appliance]:
    folder: Path = tmp_path_factory.mktemp("stubs")
    with stubs.running(folder, canary_interval=600.0, health_interval=600.0) as running:
        running.wait_state("READY")
        yield running


@pytest.mark.parametrize("name", CASES)
def test_the_stand_ins(stand_ins: stubs.Appliance, name: str) -> None:
    case = CASES[name]
    ports = {"prefill": stand_ins.prefill, "decode": stand_ins.decode}
    refused = {"generate": 400} if name == "refused" else {}
    stand_ins.behave("prefill", **refused)
    stand_ins.behave("decode", **refused, **({"seconds": 60} if case.leaves else {}))
    time.sleep(0.2)
    found = moved(lambda role: counters(ports[role]), lambda: send(stand_ins.router, case, "stub"))
    assert found == {"prefill": case.prefill, "decode": case.decode}
