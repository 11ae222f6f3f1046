"""A router of either kind before the servers of a running appliance, with the command line that the plan has for it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.appliance import Appliance
from support.ports import free_ports

from api.client import KEY, send

LINK_TIMEOUT_S = 15  # tells a request that waits for its peer from one that is slow on a loaded machine
ROUTERS = ("sglang-router", "smg")


@contextmanager
def front(appliance: Appliance, router: str, **settings: str) -> Iterator[int]:
    """The port of one more router; ends it afterwards."""
    port, metrics = free_ports(2)
    own = {"DSV4_ROUTER": router, "DSV4_PORT": str(port), "DSV4_ROUTER_METRICS_PORT": str(metrics)}
    program = planned({**appliance.environ, "DSV4_PROFILE": "demo-cpu", **own, **settings})
    log = appliance.root / f"front-{router}-{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(program["argv"], env=program["env"], stdout=out, stderr=out)
    try:
        wait_ready(port, process, log.read_text)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def planned(environ: dict[str, str]) -> dict[str, Any]:
    """The router as `dsv4-pd plan` has it."""
    done = subprocess.run(
        [sys.executable, "-m", "dsv4_pd", "plan", "--json"], env=environ, check=True, capture_output=True, timeout=60
    )
    programs: list[dict[str, Any]] = json.loads(done.stdout)["programs"]
    return next(program for program in programs if program["name"] == "router")


def wait_ready(port: int, process: subprocess.Popen[bytes], log: Any) -> None:
    """Until the router has both servers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            if send(port, "/readiness", bound=5).status == 200:
                return
        except OSError:
            pass
        assert process.poll() is None and time.monotonic() < deadline, log()[-2000:]
        time.sleep(0.2)


def in_flight(appliance: Appliance) -> dict[str, int]:
    """Requests that each server still holds, in any of its queues, by its own account."""
    return {
        role: _held(appliance.ports[port])
        for role, port in (("prefill", "DSV4_PREFILL_PORT"), ("decode", "DSV4_DECODE_PORT"))
    }


def wait_idle(appliance: Appliance, bound: float) -> None:
    """Until neither server holds a request; the guard's own canary may be one for a moment."""
    started = time.monotonic()
    while any((held := in_flight(appliance)).values()):
        waited = time.monotonic() - started
        assert waited < bound, f"still held after {waited:.0f} s: {held}"
        time.sleep(0.1)


def _held(port: int) -> int:
    loads = send(port, "/v1/loads?include=all", key=KEY).json()["loads"]
    return sum(
        load["num_running_reqs"]
        + load["num_waiting_reqs"]
        + sum(count for name, count in load["disaggregation"].items() if name.endswith("_queue_reqs"))
        for load in loads
    )
