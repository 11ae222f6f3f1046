"""An appliance on three hosts, as far as the network can tell: prefill, decode and router in namespaces of their own.

Real entrypoint, engines, router and NIXL over TCP on a bridge. Not here: real network cards, RDMA, an orchestrator.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, VENVS
from pair.test_listeners import cannot, ip

pytestmark = [pytest.mark.pair, pytest.mark.slow]

NETWORK = "198.51.100"  # TEST-NET-2: nobody's
ADDRESS = {"prefill": f"{NETWORK}.1", "decode": f"{NETWORK}.2", "router": f"{NETWORK}.3"}
START_S = float(os.environ.get("TEST_START_TIMEOUT_S", "420"))
CHAT = {"model": "dsv4-demo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}


@dataclass
class Host:
    """One role in its own network namespace."""

    role: str
    space: str
    root: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, environ: dict[str, str]) -> None:
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "DSV4_RUN_DIR": str(self.root / "run"),
            "DSV4_STATE_DIR": str(self.root / "state"),
            "DSV4_ENGINE_PYTHON": str(VENVS / "engine" / "bin" / "python"),
            "DSV4_LOG_FORMAT": "text",
            "DSV4_PROFILE": "demo-cpu",
            "PYTHONPATH": os.environ.get("PYTHONPATH", "") + f":{ROOT / 'gate'}",
            "DSV4_ROLE": self.role,
        }
        with (self.root / "log").open("ab") as out:
            command = ["ip", "netns", "exec", self.space, sys.executable, "-m", "dsv4_pd", "serve"]
            self.process = subprocess.Popen(command, env=own | environ, stdout=out, stderr=out)

    def stop(self) -> int:
        """Its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)

    def health(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.root / "run/health.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def wait_for(self, state: str, timeout: float = START_S) -> None:
        end = time.monotonic() + timeout
        while self.health().get("state") != state:
            assert time.monotonic() < end, f"{self.role} is not {state}:\n{self.told()}"
            assert self.process and self.process.poll() is None, f"{self.role} has ended:\n{self.told()}"
            time.sleep(0.1)

    def told(self) -> str:
        lines = (self.root / "log").read_text(errors="replace").splitlines()
        return "\n".join(line[:300] for line in lines if "guard  " in line or "dsv4-pd |" in line)[-4000:]

    def curl(self, url: str, body: Any = None) -> tuple[int, str]:
        """(status, body) of a request that is sent from this host."""
        words = ["curl", "-s", "-m", "60", "-w", "\n%{http_code}", url]
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body else []
        done = subprocess.run(["ip", "netns", "exec", self.space, *words], capture_output=True, text=True, check=False)
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """All three, READY."""
    if reason := cannot() or ("" if shutil.which("curl") else "no curl"):
        pytest.skip(reason)
    mark = os.getpid() % 100000
    switch = f"dsv4s{mark}"
    found = {role: Host(role, f"dsv4{role[0]}{mark}", tmp_path_factory.mktemp(role)) for role in ADDRESS}
    key = tmp_path_factory.mktemp("key") / "member"
    key.write_text("0123456789abcdef" * 2)
    with contextlib.ExitStack() as stack:
        ip("netns", "add", switch)
        stack.callback(ip, "netns", "delete", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for role, host in found.items():
            ip("netns", "add", host.space)
            stack.callback(ip, "netns", "delete", host.space)
            ip("link", "add", host.space, "netns", switch, "type", "veth", "peer", "name", "eth0", "netns", host.space)
            ip("-n", switch, "link", "set", host.space, "master", "br0")
            ip("-n", switch, "link", "set", host.space, "up")
            ip("-n", host.space, "address", "add", f"{ADDRESS[role]}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", host.space, "link", "set", device, "up")
        told = {"DSV4_MEMBER_KEY_FILE": str(key)}
        environs = {
            "prefill": {"DSV4_NET_DEVICES": "eth0"},
            "decode": {"DSV4_ADDRESS": ADDRESS["decode"]},
            "router": {
                "DSV4_PREFILLS": f"{ADDRESS['prefill']}:30000:8998",
                "DSV4_DECODES": f"{ADDRESS['decode']}:30001",
            },
        }
        for role, host in found.items():
            host.start(environs[role] | told)
            stack.callback(_end, host)
        found["router"].wait_for("READY")
        yield found


def _end(host: Host) -> None:
    if host.process and host.process.poll() is None:
        host.stop()


def ask(hosts: dict[str, Host]) -> str:
    status, text = hosts["router"].curl("http://127.0.0.1:8000/v1/chat/completions", CHAT)
    assert status == 200, text
    answer: str = json.loads(text)["choices"][0]["message"]["content"]
    return answer


def transfers(hosts: dict[str, Host]) -> float:
    """KV caches that prefill has handed over, as the router's guard read it last."""
    return float(hosts["router"].health()["link"].get("transfers", 0))


def test_answers_come_through_and_the_kv_cache_crosses_between_hosts(hosts: dict[str, Host]) -> None:
    before = transfers(hosts)
    answer = ask(hosts)
    assert answer
    end = time.monotonic() + 20
    while transfers(hosts) <= before:
        assert time.monotonic() < end, hosts["router"].health()["link"]
        time.sleep(0.2)
    for role in ("prefill", "decode"):
        hosts[role].wait_for("READY", 60)  # a member sees what crosses it


def test_a_member_asks_for_the_key_and_its_ranks_meet_on_loopback(hosts: dict[str, Host]) -> None:
    assert hosts["router"].curl(f"http://{ADDRESS['decode']}:30001/v1/models")[0] == 401
    assert hosts["router"].curl(f"http://{ADDRESS['decode']}:8001/readyz")[0] == 200
    said = subprocess.run(["ip", "netns", "exec", hosts["decode"].space, "ss", "-Hltn"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    listening = {line.split()[3] for line in said.splitlines()}
    assert "127.0.0.1:30435" in listening and f"{ADDRESS['decode']}:30001" in listening
    assert not [address for address in listening if address.startswith(("0.0.0.0", "*", "[::]"))], listening


def test_members_tell_what_they_serve_with(hosts: dict[str, Host]) -> None:
    told = [hosts[role].health()["agreement"] for role in ("prefill", "decode")]
    assert told[0] == told[1] and {"revision", "page-size", "kv-cache-dtype"} <= told[0].keys()


def test_a_member_that_is_killed_is_named_and_heals(hosts: dict[str, Host]) -> None:
    router, decode = hosts["router"], hosts["decode"]
    os.kill(decode.health()["roles"]["decode"]["pid"], signal.SIGKILL)
    router.wait_for("RECOVERING", 15)
    assert "decode" in router.health()["reason"] and "prefill" not in router.health()["reason"]
    status, text = router.curl("http://127.0.0.1:8000/v1/chat/completions", CHAT)
    assert status == 503 and "decode" in text
    router.wait_for("READY")
    assert ask(hosts)
    assert router.health()["restarts"]["spent"] == 0, "what happens elsewhere costs the router nothing"
    assert decode.health()["restarts"]["spent"] == 1


def test_a_member_that_is_stopped_leaves_first(hosts: dict[str, Host]) -> None:
    router, prefill = hosts["router"], hosts["prefill"]
    assert prefill.stop() == 0
    assert "gets no requests: is leaving (STOPPING)" in router.told()
    assert router.health()["state"] == "RECOVERING" and "prefill" in router.health()["reason"]
    assert router.curl("http://127.0.0.1:8001/livez")[0] == 200, "a router waits for its members"
