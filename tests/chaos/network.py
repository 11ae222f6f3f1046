"""Faults of the network and of /dev/shm; only inside namespaces of their own (`isolate`)."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dsv4_pd.run.guard.watch import tree
from support.appliance import Appliance
from support.members import of_servers

from chaos import who
from chaos.isolate import isolated


def available(appliance: Appliance) -> bool:
    """Whether there is a link, and a packet filter can be set without touching the machine's own network."""
    return who.has_link(appliance) and isolated() and shutil.which("iptables") is not None


def link_ports(appliance: Appliance, name: str) -> list[int]:
    """TCP ports that a server's processes listen on beside those of the plan: UCX, NIXL and their like."""
    planned = set(appliance.ports.values()) | of_servers(appliance.members)
    group = tree.members(appliance.pid(name))
    table = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    found = set()
    for line in table.splitlines():
        pids = {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
        if pids & group:
            found.add(int(line.split()[3].rpartition(":")[2]))
    return sorted(found - planned)


@contextmanager
def filtered(ports: list[int], *match: str) -> Iterator[None]:
    """Drop the packets of these ports that also match."""
    rules = [["INPUT", "-p", "tcp", side, str(port), *match, "-j", "DROP"] for port in ports
             for side in ("--dport", "--sport")]  # fmt: skip
    for rule in rules:
        subprocess.run(["iptables", "-I", *rule], check=True)
    try:
        yield
    finally:
        for rule in rules:
            subprocess.run(["iptables", "-D", *rule], check=True)


def cut_link_briefly(appliance: Appliance, choose: random.Random) -> str:
    """Decode's KV ports are dropped for some seconds: shorter than anything that is restarted for."""
    (decode,) = who.drawn(appliance, choose, "decode")
    seconds, ports = choose.uniform(2, 6), link_ports(appliance, decode)
    with filtered(ports):
        time.sleep(seconds)
    return f"KV link cut for {seconds:.0f} s ({len(ports)} ports)"


def cut_link(appliance: Appliance, choose: random.Random) -> str:
    """Decode's KV ports are dropped until another decode listens on ports of its own, or for two minutes."""
    (decode,) = who.drawn(appliance, choose, "decode")
    before, ports = appliance.pid(decode), link_ports(appliance, decode)
    begun = time.monotonic()
    with filtered(ports):
        while time.monotonic() - begun < 120:
            now = appliance.health().get("roles", {}).get(decode, {}).get("pid")
            if now not in (None, before):
                break
            time.sleep(0.2)
    return f"KV link cut for {time.monotonic() - begun:.0f} s ({len(ports)} ports)"


def slow_link(appliance: Appliance, choose: random.Random) -> str:
    """A third of the packets of decode's KV ports is lost for some seconds."""
    (decode,) = who.drawn(appliance, choose, "decode")
    seconds, ports = choose.uniform(5, 12), link_ports(appliance, decode)
    with filtered(ports, "-m", "statistic", "--mode", "random", "--probability", "0.3"):
        time.sleep(seconds)
    return f"KV link loses 30 % for {seconds:.0f} s ({len(ports)} ports)"


def fill_shared_memory(appliance: Appliance, choose: random.Random) -> str:
    """/dev/shm is full for some seconds."""
    seconds, filler = choose.uniform(3, 8), Path("/dev/shm/chaos-filler")
    try:
        with filler.open("wb") as file:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
    except OSError:
        pass  # full
    time.sleep(seconds)
    filler.unlink(missing_ok=True)
    return f"/dev/shm full for {seconds:.0f} s"
