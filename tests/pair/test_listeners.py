"""What listens where, on the real pair: only the API and the ops port answer another host, and no proxy is asked."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.appliance import Appliance

pytestmark = pytest.mark.pair

OUTSIDE, INSIDE = "198.51.100.1", "198.51.100.2"  # TEST-NET-2: nobody's
BLACK_HOLE = "http://127.0.0.1:9"  # whoever goes there is refused at once
HOSTILE = dict.fromkeys(
    ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"), BLACK_HOLE
)
CONNECT = """
import json, socket, sys
host, ports, found = sys.argv[1], json.loads(sys.argv[2]), []
for port in ports:
    with socket.socket() as probe:
        probe.settimeout(2)
        if probe.connect_ex((host, port)) == 0:
            found.append(port)
print(json.dumps(found))
"""


def cannot() -> str | None:
    """Why this machine can't make a network namespace."""
    if os.geteuid() != 0:
        return "makes a network namespace: needs root"
    if not shutil.which("ip") or not shutil.which("ss"):
        return "no ip or ss: apt-get install iproute2"
    made = subprocess.run(
        ["ip", "netns", "add", f"dsv4-try-{os.getpid()}"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        return f"may not make a network namespace here: {made.stderr.strip()}"
    ip("netns", "delete", f"dsv4-try-{os.getpid()}")
    return None


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[list[str]]:
    """The words before a command that runs on another host, as far as the network can tell; it reaches INSIDE."""
    if reason := cannot():
        pytest.skip(reason)
    name, here, there = f"dsv4-{os.getpid()}", f"dsv4h{os.getpid() % 100000}", f"dsv4t{os.getpid() % 100000}"
    ip("netns", "add", name)
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("address", "add", f"{INSIDE}/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "address", "add", f"{OUTSIDE}/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        yield ["ip", "netns", "exec", name]
    finally:
        ip("netns", "delete", name)


@pytest.fixture(scope="module", params=["sglang-router", "smg"])
def appliance(
    request: pytest.FixtureRequest, elsewhere: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Appliance]:
    """On every address, in this network namespace: a container in host network mode sees no other.

    With one router the ops port is asked for on every address too, with the other it stays where it is by default.
    """
    environ = {"DSV4_HOST": "0.0.0.0", "DSV4_ROUTER": request.param, **HOSTILE}
    if request.param == "smg":
        environ["DSV4_OPS_HOST"] = "0.0.0.0"
    with Appliance(tmp_path_factory.mktemp("listeners"), environ) as running:
        yield running


def listening(appliance: Appliance, kind: str) -> list[tuple[str, int, str]]:
    """(address, port, program) of each listening socket of ours; `kind`: t or u."""
    said = subprocess.run(["ss", f"-Hln{kind}p"], capture_output=True, text=True, check=True).stdout.splitlines()
    pids = appliance.pids()
    found = []
    for line in said:
        if any(f"pid={pid}," in line for pid in pids):
            address, port = line.split()[3].rsplit(":", 1)
            found.append((address.split("%")[0], int(port), line.split()[-1]))
    return found


def public(appliance: Appliance) -> set[int]:
    """The API, and the ops port where it was asked for."""
    opened = ["DSV4_PORT", *(["DSV4_OPS_PORT"] if "DSV4_OPS_HOST" in appliance.environ else [])]
    return {appliance.ports[name] for name in opened}


def test_only_the_api_and_ops_listen_beyond_loopback(appliance: Appliance) -> None:
    tcp = listening(appliance, "t")
    assert len(tcp) >= 9, tcp
    assert {port for address, port, _ in tcp if not address.startswith(("127.", "[::1]"))} == public(appliance), tcp
    assert not [item for item in listening(appliance, "u") if not item[0].startswith(("127.", "[::1]"))]
    rendezvous = {appliance.ports[f"DSV4_{role}_NCCL_PORT"] for role in ("PREFILL", "DECODE")}
    assert rendezvous <= {port for address, port, _ in tcp if address == "127.0.0.1"}, "torch's store still serves"


def test_only_the_api_and_ops_answer_another_host(appliance: Appliance, elsewhere: list[str]) -> None:
    ports = sorted({port for _, port, _ in listening(appliance, "t")} | set(appliance.ports.values()))
    command = [*elsewhere, sys.executable, "-c", CONNECT, INSIDE, json.dumps(ports)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert set(json.loads(done.stdout)) == public(appliance)


def test_every_rank_proved_that_it_meets_on_loopback(appliance: Appliance) -> None:
    target = "torch.distributed.rendezvous._create_c10d_store"
    records = [json.loads(path.read_text()) for path in (appliance.root / "run/plugins").glob("dsv4-gate.*.json")]
    proved = [record for record in records if record["patches"].get(target) == "active"]
    assert len(proved) == 2 and all(target in record["required"] for record in proved), records


def test_no_proxy_is_asked_on_this_machine(appliance: Appliance) -> None:
    """Every proxy variable leads nowhere and nothing is excepted: it serves, and the commands that ask it work."""
    assert appliance.state() in ("READY", "DEGRADED")
    environ = {**appliance.environ, "NO_PROXY": "", "no_proxy": ""}
    for words in (
        ["status", "--url", appliance.ops],
        ["health"],
        ["verify", "--only", "generation", "--url", appliance.ops],
    ):
        done = subprocess.run([sys.executable, "-m", "dsv4_pd", *words], env=environ, capture_output=True, text=True,
                              timeout=300, check=False)  # fmt: skip
        assert done.returncode == 0, (words, done)


def test_an_open_api_is_said_aloud(appliance: Appliance) -> None:
    said = "asks for no key (DSV4_API_KEY is unset)"
    assert appliance.log.read_text().count(said) >= 2, "on the console: first, by the guard, in the banner"
    with urllib.request.urlopen(f"{appliance.ops}/status", timeout=10) as got:
        assert said in json.load(got)["notices"][0]


def test_the_rendezvous_serves_nobody_else(appliance: Appliance) -> None:
    for role in ("PREFILL", "DECODE"):
        with socket.socket() as probe:
            probe.settimeout(2)
            assert probe.connect_ex((INSIDE, appliance.ports[f"DSV4_{role}_NCCL_PORT"])) != 0


def test_the_guards_key_stands_in_one_file(appliance: Appliance) -> None:
    key = (appliance.root / "run/router.control.key").read_bytes()
    bundle = appliance.root / "bundle.tar.gz"
    command = [sys.executable, "-m", "dsv4_pd", "support-bundle", "--output", str(bundle)]
    subprocess.run(command, env=appliance.environ, check=True, capture_output=True, timeout=120)
    subprocess.run(["tar", "-xzf", bundle, "-C", appliance.root], check=True)
    everywhere = [
        path for path in Path(appliance.root).rglob("*") if path.is_file() and path.name != "router.control.key"
    ]
    assert not [path for path in everywhere if key in path.read_bytes()]
    assert not [pid for pid in appliance.pids() if key in Path(f"/proc/{pid}/cmdline").read_bytes()]
