"""A front with a router of either kind before the servers of a running appliance, as the plan has them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dsv4_pd.run import files
from support.appliance import Appliance
from support.plans import make, no_gpu
from support.ports import free_ports

from api.client import KEY, send

LINK_TIMEOUT_S = 15  # tells a request that waits for its peer from one that is slow on a loaded machine
ROUTERS = ("sglang-router", "smg")


@contextmanager
def front(appliance: Appliance, router: str, **settings: str) -> Iterator[int]:
    """The port of one more front, and behind it one more router, as the plan has them; both end afterwards."""
    port, behind, metrics, front_metrics = free_ports(4)
    run = appliance.root / f"front-{router}-{port}"
    run.mkdir()
    (run / "health.json").symlink_to(appliance.root / "run/health.json")  # the guard's word is about the same servers
    own = {"DSV4_ROUTER": router, "DSV4_PORT": str(port), "DSV4_ROUTER_PORT": str(behind), "DSV4_RUN_DIR": str(run),
           "DSV4_ROUTER_METRICS_PORT": str(metrics), "DSV4_FRONT_METRICS_PORT": str(front_metrics)}  # fmt: skip
    plan = make({**appliance.environ, "DSV4_PROFILE": "demo-cpu", **own, **settings}, no_gpu(), run)
    running = []
    for program in (program for program in plan.programs if program.name in ("router", "front")):
        files.write(program.files)
        environ = {"PATH": os.environ["PATH"], "HOME": str(run), **dict(program.env)}
        with (run / f"{program.name}.log").open("wb") as out:
            running.append(subprocess.Popen(program.argv, env=environ, stdout=out, stderr=out))
    try:
        for process, where in zip(running, ((behind, "/readiness"), (port, "/readyz")), strict=True):
            wait_ready(where, process, lambda: "".join(log.read_text()[-2000:] for log in run.glob("*.log")))
        yield port
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(40)


def wait_ready(where: tuple[int, str], process: subprocess.Popen[bytes], log: Callable[[], str]) -> None:
    """Until it serves, by its own word."""
    deadline = time.monotonic() + 60
    while True:
        try:
            if send(*where, bound=5).status == 200:
                return
        except OSError:
            pass
        assert process.poll() is None and time.monotonic() < deadline, log()
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
