"""Several members on the CPU: a dead one is named and missed by nobody; each path is proved by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest
from dsv4_pd.plan.members import PORT_STEP
from dsv4_pd.run.ops.exposition import samples
from support.appliance import Appliance

pytestmark = [pytest.mark.pair, pytest.mark.slow]
NOTICE_S = 8.0  # two health checks of the router, two seconds apart, and some
FURTHER = ("DSV4_PREFILL_PORT", "DSV4_DECODE_PORT", "DSV4_BOOTSTRAP_PORT", "DSV4_PREFILL_NCCL_PORT",
           "DSV4_DECODE_NCCL_PORT")  # fmt: skip


def appliance(root: Path, layout: str, **environ: str) -> Appliance:
    """One whose further members' ports are free as well."""
    while True:
        found = Appliance(root, {"DSV4_LAYOUT": layout, "DSV4_RESTART_LIMIT": "20", **environ})
        mine = set(found.ports.values())
        further = {found.ports[name] + PORT_STEP for name in FURTHER}
        if not further & mine and all(free(port) for port in further):
            return found


def free(port: int) -> bool:
    with socket.socket() as probe:
        return port < 65536 and probe.connect_ex(("127.0.0.1", port)) != 0


class Clients:
    """Short requests one after the other, from two clients; what became of each."""

    def __init__(self, running: Appliance) -> None:
        self.done: list[tuple[float, int, float]] = []  # begun, status (0: none), seconds
        self._running, self._over = running, False
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(2)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join(90)

    def _send(self, number: int) -> None:
        count = 0
        while not self._over:
            count += 1
            begun, status = time.monotonic(), 0
            body = {"model": "dsv4-demo", "prompt": f"client {number} asks {count}", "max_tokens": 4, "temperature": 0}
            with contextlib.suppress(OSError, HTTPException):
                status = self._running.call("/v1/completions", body, timeout=60)[0]
            self.done.append((begun, status, time.monotonic() - begun))

    def between(self, begin: float, end: float) -> list[int]:
        return [status for begun, status, _ in self.done if begin <= begun <= end]


@pytest.fixture(scope="module", params=["sglang-router", "smg"])
def replicas(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    root = tmp_path_factory.mktemp("replicas")
    with appliance(root, "replicas:2x1", DSV4_ROUTER=request.param) as running:
        yield running


def test_each_replica_is_proved_and_has_its_metrics(replicas: Appliance) -> None:
    health = replicas.health()
    assert list(health["roles"]) == ["single-1", "single-2", "router"]
    assert [path["members"] for path in health["paths"]] == [["single-1"], ["single-2"]]
    assert all(path["proved_s_ago"] is not None for path in health["paths"])
    answers = [replicas.chat("What is the capital of Italy?")["content"] for _ in range(4)]
    assert set(answers) == {"The capital of Italy is Rome."}
    seen = samples(str(replicas.call("/metrics", base=replicas.ops)[1]))
    counted = {
        s.labels["member"]: s.value for s in seen if s.name == "dsv4_role_ready" and s.labels["role"] == "single"
    }
    assert counted == {"single-1": 1.0, "single-2": 1.0}
    tokens = {s.labels["member"] for s in seen if s.name == "sglang:realtime_tokens_total" and s.value > 0}
    assert tokens == {"single-1", "single-2"}, "both have answered"


def test_a_dead_replica_is_named_and_the_other_serves(replicas: Appliance) -> None:
    pids = {name: replicas.pid(name) for name in ("single-1", "single-2", "router")}
    states: set[str] = set()
    with Clients(replicas) as clients:
        time.sleep(3.0)
        died = time.monotonic()
        os.kill(pids["single-2"], signal.SIGKILL)
        replicas.wait_for("DEGRADED", timeout=5)
        reason = replicas.health()["reason"]
        while replicas.state() != "READY":
            assert time.monotonic() - died < 420, replicas.health()
            states.add(replicas.state())
            time.sleep(0.2)
        back = time.monotonic()
        time.sleep(3.0)
    assert reason.startswith("single-2: ") and "served by single-1" in reason, reason
    assert states == {"DEGRADED"}, "never out of service"
    assert replicas.pid("single-1") == pids["single-1"] and replicas.pid("router") == pids["router"]
    assert replicas.pid("single-2") != pids["single-2"]
    assert replicas.health()["restarts"]["spent"] == 0
    assert replicas.health()["members"]["single-2"]["spent"] >= 1
    later = clients.between(died + NOTICE_S, back)
    print(f"{len(clients.done)} requests; while it was away, after {NOTICE_S:.0f} s: {len(later)}; "
          f"in the first: {clients.between(died - 5, died + NOTICE_S)}")  # fmt: skip
    assert later and set(later) == {200}, "once the router knows, nobody notices"
    assert set(clients.between(back, back + 60)) == {200}


def test_a_hung_replica_is_restarted_and_the_other_serves(replicas: Appliance) -> None:
    before = replicas.pid("single-1")
    hung = [before, *children(before)]
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    replicas.wait_for("DEGRADED", timeout=60)
    replicas.wait_until(lambda: replicas.health()["roles"]["single-1"]["pid"] not in (before,), "another process", 180)
    replicas.wait_for("READY")
    assert replicas.chat("What is the capital of Italy?")["content"] == "The capital of Italy is Rome."


def children(pid: int) -> list[int]:
    from dsv4_pd.run.guard import tree

    return [each for each in tree.members(pid) if each != pid]


def test_nothing_is_left_when_it_stops(replicas: Appliance) -> None:
    assert replicas.stop() == 0
    assert replicas.leftovers() == []
