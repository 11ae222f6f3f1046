"""Faults on the real pair: who is restarted, how long clients wait, and that the path is proved again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest
from dsv4_pd.run.guard import tree
from dsv4_pd.run.supervision import rpc
from support.appliance import Appliance

pytestmark = [pytest.mark.pair, pytest.mark.slow]
LEAVE_S, BOUND_S = 2.0, 30.0


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    root = tmp_path_factory.mktemp("recovery")
    with Appliance(root, {"DSV4_RESTART_LIMIT": "20", "DSV4_STALL_TIMEOUT": "60s"}) as running:
        yield running


def scheduler(appliance: Appliance, role: str) -> int:
    """The process that computes."""
    for pid in tree.members(appliance.pid(role)):
        if b"scheduler" in (Path("/proc") / str(pid) / "cmdline").read_bytes():
            return pid
    raise AssertionError(f"{role} has no scheduler")


def leaves_ready(appliance: Appliance) -> None:
    assert appliance.wait_until(lambda: appliance.state() != "READY", "leaving READY", 30) <= LEAVE_S


def serves(appliance: Appliance) -> None:
    appliance.wait_for("READY")
    assert appliance.chat("What is the capital of Italy?")["content"] == "The capital of Italy is Rome."


def test_sixteen_streams_end_in_time_when_decode_dies(appliance: Appliance) -> None:
    ends: list[float] = []

    def stream() -> None:
        body = {"max_tokens": 3000, "min_tokens": 3000, "messages": [{"role": "user", "content": "Tell me a story"}]}
        begun = time.monotonic()
        with contextlib.suppress(
            OSError, HTTPException, AssertionError
        ):  # an error or a cut stream: what counts is that it ends
            appliance.stream(body, timeout=BOUND_S)
        ends.append(time.monotonic() - begun)

    clients = [threading.Thread(target=stream) for _ in range(16)]
    for client in clients:
        client.start()
    time.sleep(1.0)
    os.kill(appliance.pid("decode"), signal.SIGKILL)
    leaves_ready(appliance)
    for client in clients:
        client.join(BOUND_S + 5)
    assert len(ends) == 16
    assert max(ends) < BOUND_S
    serves(appliance)


def test_a_dead_scheduler_is_noticed_before_the_engine_does(appliance: Appliance) -> None:
    before = {role: appliance.pid(role) for role in ("prefill", "decode")}
    os.kill(scheduler(appliance, "decode"), signal.SIGKILL)
    appliance.wait_until(lambda: appliance.state() != "READY", "leaving READY", 30)
    serves(appliance)
    assert appliance.pid("decode") != before["decode"]
    assert appliance.pid("prefill") == before["prefill"]


def test_a_paused_scheduler_comes_back_without_a_restart(appliance: Appliance) -> None:
    before, pid = appliance.pid("decode"), scheduler(appliance, "decode")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(5)
    os.kill(pid, signal.SIGCONT)
    time.sleep(3)
    serves(appliance)
    assert appliance.pid("decode") == before


def test_a_hung_scheduler_is_replaced(appliance: Appliance) -> None:
    before, pid = appliance.pid("decode"), scheduler(appliance, "decode")
    os.kill(pid, signal.SIGSTOP)
    appliance.wait_until(lambda: appliance.state() not in ("READY", "DEGRADED"), "leaving READY", 120)
    appliance.wait_until(
        lambda: appliance.health()["roles"]["decode"]["pid"] not in (None, before), "a new decode", 180
    )
    serves(appliance)


def test_the_guard_dies_and_nothing_else_moves(appliance: Appliance) -> None:
    before = {role: appliance.pid(role) for role in ("prefill", "decode", "router")}
    supervisor = rpc.connect(appliance.root / "run" / "supervisor.sock")
    guard = supervisor.getProcessInfo("guard")["pid"]
    os.kill(guard, signal.SIGKILL)
    appliance.wait_until(lambda: supervisor.getProcessInfo("guard")["pid"] not in (0, guard), "a new guard", 20)
    time.sleep(2)
    serves(appliance)
    assert {role: appliance.pid(role) for role in before} == before


def test_the_router_dies(appliance: Appliance) -> None:
    before = appliance.pid("decode")
    os.kill(appliance.pid("router"), signal.SIGKILL)
    leaves_ready(appliance)
    assert appliance.wait_for("READY") < 60
    serves(appliance)
    assert appliance.pid("decode") == before


def test_both_servers_die_at_once_and_it_is_paid_once(appliance: Appliance) -> None:
    spent = appliance.health()["restarts"]["spent"]
    for pid in (appliance.pid("prefill"), appliance.pid("decode")):
        os.kill(pid, signal.SIGKILL)
    leaves_ready(appliance)
    serves(appliance)
    assert appliance.health()["restarts"]["spent"] == spent + 1


def test_a_client_that_leaves_frees_both_halves(appliance: Appliance) -> None:
    body = json.dumps({"model": "dsv4-demo", "stream": True, "max_tokens": 3500, "min_tokens": 3000,
                       "messages": [{"role": "user", "content": "Tell me a story"}]}).encode()  # fmt: skip
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", appliance.ports["DSV4_PORT"])) as client:
        client.sendall(head.encode() + body)
        client.recv(4096)
    time.sleep(8)
    for role in ("prefill", "decode"):
        assert appliance.metrics(role).get("sglang:num_running_reqs", 0.0) == 0.0


def test_supervisord_dies(appliance: Appliance) -> None:
    supervisord = int((appliance.root / "run" / "supervisord.pid").read_text())
    os.kill(supervisord, signal.SIGKILL)
    appliance.wait_until(lambda: appliance.state() != "READY", "leaving READY", 10)
    serves(appliance)


def test_zz_a_stop_under_load_drains_and_leaves_nothing(appliance: Appliance) -> None:
    answers: list[str] = []
    clients = [threading.Thread(target=lambda: answers.append(appliance.chat("What is NIXL?")["content"]))
               for _ in range(4)]  # fmt: skip
    for client in clients:
        client.start()
    time.sleep(0.05)
    assert appliance.stop(signal.SIGTERM) == 0
    for client in clients:
        client.join()
    assert len(set(answers)) <= 1
    assert appliance.leftovers() == []
