"""The KV link between the real servers is cut by a packet filter: both say that they are ready, and nothing crosses.

In a network namespace of its own, so that no other connection of the machine is touched.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest
from chaos.network import filtered
from dsv4_pd.plan.guard.config import GuardConfig
from dsv4_pd.run.guard.watch import tree
from support.appliance import Appliance

pytestmark = [pytest.mark.pair, pytest.mark.slow, pytest.mark.long]
CANARY_INTERVAL_S = float(str({field.name: field.default for field in fields(GuardConfig)}["canary_interval"]))
SLACK_S = 5.0  # a machine whose two cores others use as well
NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@contextmanager
def own_network() -> Iterator[None]:
    """This thread, and whatever it starts, in a network namespace with nothing but loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not (shutil.which("iptables") and shutil.which("ip")):
        pytest.skip("needs ip and iptables")
    with Path("/proc/thread-self/ns/net").open() as before:
        if libc.unshare(NEW_NETWORK):
            pytest.skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            if subprocess.run(["iptables", "-L", "-n"], capture_output=True, check=False).returncode:
                pytest.skip("iptables does not work here")
            yield
        finally:
            libc.setns(before.fileno(), NEW_NETWORK)


@pytest.fixture(scope="module", params=["sglang-router", "smg"])
def appliance(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Appliance]:
    """With the product's own DSV4_LINK_TIMEOUT, not the demo's, which ends requests sooner than the guard would."""
    settings = {"DSV4_RESTART_LIMIT": "20", "DSV4_LINK_TIMEOUT": "10m", "DSV4_ROUTER": request.param}
    root = tmp_path_factory.mktemp("link")
    with own_network(), Appliance(root, settings) as running:
        yield running


def link_ports(appliance: Appliance) -> set[str]:
    """Where decode listens for prefill: the ports of its scheduler that prefill's is connected to."""
    pids = {role: tree.workers(tree.members(appliance.pid(role))) for role in ("prefill", "decode")}

    def sockets(option: str, role: str) -> list[list[str]]:
        lines = subprocess.run(["ss", f"-H{option}tnp"], capture_output=True, text=True, check=True).stdout.splitlines()
        return [line.split() for line in lines if any(f"pid={pid}," in line for pid in pids[role])]

    listens = {words[3].rpartition(":")[2] for words in sockets("l", "decode")}
    reached = {words[4].rpartition(":")[2] for words in sockets("", "prefill")}
    return listens & reached


@contextmanager
def cut(ports: set[str]) -> Iterator[None]:
    """Packets to and from these ports are dropped: no reset, no answer."""
    assert ports, "decode listens for nobody"
    with filtered([int(port) for port in ports], "-i", "lo"):
        yield


def ask(appliance: Appliance, stop: threading.Event, answers: list[int]) -> None:
    while not stop.wait(0.5):
        body = {"model": "dsv4-demo", "prompt": f"hello {time.time()}", "max_tokens": 3}
        try:
            answers.append(appliance.call("/v1/completions", body, timeout=20)[0])
        except (OSError, urllib.error.URLError):
            answers.append(0)


@pytest.mark.parametrize("clients", [0, 3], ids=["idle", "under load"])
def test_a_cut_link_is_noticed_named_and_healed(appliance: Appliance, clients: int) -> None:
    appliance.wait_for("READY")
    assert appliance.chat("What is NIXL?")["content"]
    before = {role: appliance.pid(role) for role in ("prefill", "decode", "router")}
    stop, answers = threading.Event(), list[int]()
    threads = [threading.Thread(target=ask, args=(appliance, stop, answers)) for _ in range(clients)]
    with cut(link_ports(appliance)):
        for thread in threads:
            thread.start()
        took = appliance.wait_until(
            lambda: appliance.state() not in ("READY", "DEGRADED"), "leaving READY", 3 * CANARY_INTERVAL_S
        )
        reason = appliance.health()["reason"]
        stop.set()
        print(f"left READY after {took:.1f} s: {reason}; answers {sorted(set(answers))}")
        assert took <= 2 * CANARY_INTERVAL_S + SLACK_S
        assert "canary: link from prefill to decode" in reason
        appliance.wait_for("READY")  # the new processes meet on new ports
        for thread in threads:
            thread.join(25)
    assert not any(thread.is_alive() for thread in threads)
    assert appliance.pid("prefill") != before["prefill"]
    assert appliance.pid("decode") != before["decode"]
    assert appliance.pid("router") == before["router"]
    assert appliance.chat("What is the capital of Italy?")["content"] == "The capital of Italy is Rome."
