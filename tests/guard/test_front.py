"""The real front under the real guard and supervisord: it dies, stalls, loses its port, is flooded, drains."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from guard.appliance import Appliance, running

pytestmark = pytest.mark.slow  # in real time
SLACK_S = 20.0  # of a loaded machine, on top of what is promised
START_S = 90.0


def restarts(appliance: Appliance) -> dict[str, int]:
    return {name: int(role["restarts"]) for name, role in appliance.health()["roles"].items()}


def ask(appliance: Appliance, bound: float = 30.0, **fields: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", appliance.api, timeout=bound)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/completions", json.dumps({"model": "stub", "prompt": "x", **fields}))
        got = connection.getresponse()
        return got.status, json.loads(got.read()), {key.lower(): value for key, value in got.getheaders()}


def test_a_dead_front_is_back_and_nothing_else_is_restarted(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        assert ask(appliance)[0] == 200
        old = appliance.pid("front")
        appliance.kill("front")
        appliance.wait_state("RECOVERING", seconds=2 + SLACK_S)
        appliance.wait_state("READY", seconds=START_S)
        assert appliance.pid("front") != old
        assert restarts(appliance) == {"prefill": 0, "decode": 0, "router": 0, "front": 1}
        assert ask(appliance)[0] == 200


def test_a_stalled_front_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        old = appliance.pid("front")
        os.kill(old, signal.SIGSTOP)
        appliance.wait(lambda: restarts(appliance)["front"] == 1, 10 + SLACK_S)
        appliance.wait_state("READY", seconds=START_S)
        assert restarts(appliance) == {"prefill": 0, "decode": 0, "router": 0, "front": 1}


def test_until_ready_the_front_says_why_and_lets_the_guard_in_alone(tmp_path: Path) -> None:
    appliance = Appliance(tmp_path)
    appliance.behave("decode", ready_after=6)
    try:
        appliance.start()
        appliance.wait(lambda: _answers(appliance), START_S)
        status, body, headers = ask(appliance)
        assert status == 503
        assert body["error"]["code"] == "not_ready"
        assert body["error"]["message"].startswith("The server is not ready: ")
        assert int(headers["retry-after"]) > 0
        appliance.wait_state("READY")
        assert ask(appliance)[0] == 200
    finally:
        appliance.end()


def _answers(appliance: Appliance) -> bool:
    with contextlib.suppress(OSError):
        ask(appliance, 5)
        return True
    return False


def test_a_port_that_another_program_has_is_named(tmp_path: Path) -> None:
    appliance = Appliance(tmp_path)
    with socket.create_server(("127.0.0.1", appliance.api)):
        try:
            appliance.start()
            verdict = appliance.wait_end(120)
            assert verdict["code"] == 1
            assert verdict["cause"].startswith("front exited with code 75")
            assert "in use" in " ".join(verdict["lines"])
        finally:
            appliance.end()


@contextmanager
def idle(port: int, count: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
        yield


def test_clients_that_hold_every_connection_do_not_get_the_front_restarted(tmp_path: Path) -> None:
    """Its answer to one too many is an answer; a canary that gets it waits, and nothing is broken."""
    appliance = Appliance(tmp_path)
    (tmp_path / "run/front.json").write_text(replace(appliance._front(), max_connections=20).to_json())
    try:
        appliance.start()
        appliance.wait_state("READY")
        before = appliance.pid("front")
        with idle(appliance.api, 60):
            until = time.monotonic() + appliance.config.limits.router_timeout / 2 + 6
            while time.monotonic() < until:
                assert appliance.state() in ("READY", "DEGRADED"), appliance.story()
                time.sleep(0.2)
        assert appliance.pid("front") == before
        assert sum(restarts(appliance).values()) == 0
    finally:
        appliance.end()


def test_every_slot_taken_for_long_is_no_broken_path(tmp_path: Path) -> None:
    """The guard's request does not queue behind clients': it is refused, and that is no failure."""
    appliance = Appliance(tmp_path)
    (tmp_path / "run/front.json").write_text(replace(appliance._front(), max_concurrent=2).to_json())
    try:
        appliance.start()
        appliance.wait_state("READY")
        appliance.behave("decode", seconds=25)
        clients = [threading.Thread(target=ask, args=(appliance, 60), daemon=True) for _ in range(4)]
        for client in clients:
            client.start()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            assert appliance.state() in ("READY", "DEGRADED"), appliance.story()
            time.sleep(0.2)
        appliance.behave("decode")
        assert sum(restarts(appliance).values()) == 0
    finally:
        appliance.end()


def test_a_stop_finishes_what_runs_and_tells_who_comes(tmp_path: Path) -> None:
    with running(tmp_path) as appliance:
        appliance.wait_state("READY")
        appliance.behave("decode", seconds=2)
        found: list[int] = []
        client = threading.Thread(target=lambda: found.append(ask(appliance)[0]))
        client.start()
        time.sleep(0.7)
        appliance.stop()
        appliance.wait_state("STOPPING", seconds=5)
        status, body, headers = ask(appliance)
        assert (status, headers.get("connection")) == (503, "close")
        assert "STOPPING" in body["error"]["message"]
        client.join(20)
        assert found == [200]
        assert appliance.wait_end(20)["code"] == 0
        assert not appliance.leftovers()


@pytest.mark.parametrize("key", ["", "guess", "the guard's own"])
def test_only_the_guards_key_opens_the_front_before_ready(tmp_path: Path, key: str) -> None:
    appliance = Appliance(tmp_path)
    appliance.behave("decode", ready_after=600)
    try:
        appliance.start()
        appliance.wait(lambda: _answers(appliance), START_S)
        connection = http.client.HTTPConnection("127.0.0.1", appliance.api, timeout=20)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request("POST", "/v1/completions", json.dumps({"model": "stub", "prompt": "x"}), headers)
        refused = json.loads(connection.getresponse().read())["error"]
        assert (refused["code"] == "not_ready") == (key != "the guard's own"), refused
    finally:
        appliance.end()
