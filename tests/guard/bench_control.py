"""`make bench-control`: what the control plane costs, and how fast it notices. Percentiles; of the front a verdict too
(exit 1 where its median is over the aim), alone with `--front-only`.

Costs and latencies of the real appliance come from the CPU pair; the percentiles of the latencies come from many rounds
of the real guard under a real supervisord over stub servers, which start in a tenth of a second.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dsv4_pd.run.guard.watch import tree
from guard.appliance import QUICK, running
from support.appliance import Appliance

TICKS = os.sysconf("SC_CLK_TCK")
DEAD_S, STALLED_S = 2.0, 10.0  # promised of the front: until it answers again


def show(what: str, values: list[float], unit: str, aim: str) -> None:
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    print(f"{what:<58} p50 {cuts[49]:8.3f}  p90 {cuts[89]:8.3f}  max {max(values):8.3f} {unit}  "
          f"(n={len(values)}, aim {aim})", flush=True)  # fmt: skip


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used so far, all threads."""
    fields = (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def pss_mb(pid: int) -> float:
    text = (Path("/proc") / str(pid) / "smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def child_of(pid: int, word: bytes) -> int:
    """A descendant whose command line has the word; 0 while there is none."""
    for other in tree.pids():
        try:
            parent = int((Path("/proc") / str(other) / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == pid and word in (Path("/proc") / str(other) / "cmdline").read_bytes():
                return other
        except OSError:
            continue
    return 0


def costs(rounds: int) -> None:
    """The real appliance: CPU until supervisord runs, memory of the three, the health probe, a kill of decode."""
    with tempfile.TemporaryDirectory() as folder:
        appliance = Appliance(Path(folder))
        appliance.start()
        serve = appliance.process.pid
        while not (supervisord := child_of(serve, b"supervisor.supervisord")):
            time.sleep(0.002)
        show("serve: CPU from process start to supervisord's exec", [cpu_of(serve)], "s", "<= 0.6 s")
        try:
            appliance.wait_for("READY")
            ready = max(role_ready(appliance, name) for name in ("prefill", "decode"))
            show("real pair: last server ready -> READY", [entered(appliance, "READY") - ready], "s", "<= 2 s")
            time.sleep(5)
            guard = child_of(supervisord, b"guard")
            parts = {"serve": pss_mb(serve), "supervisord": pss_mb(supervisord), "guard": pss_mb(guard)}
            listed = ", ".join(f"{name} {value:.0f}" for name, value in parts.items())
            show(f"PSS: {listed}", [sum(parts.values())], "MB", "<= 120 MB")
            before, at = cpu_of(guard), time.monotonic()
            time.sleep(20)
            show(
                "guard: CPU while READY and idle", [100 * (cpu_of(guard) - before) / (time.monotonic() - at)], "%", "-"
            )
            show("dsv4-pd health: CPU", [health_cpu(appliance) * 1000 for _ in range(rounds)], "ms", "<= 60 ms")
            killed = time.monotonic()
            os.kill(appliance.pid("decode"), 9)
            appliance.wait_until(lambda: appliance.state() != "READY", "leaving READY", 30)
            show("real pair: kill decode -> not READY", [time.monotonic() - killed], "s", "<= 2 s")
            show("real pair: kill decode -> READY again", [appliance.wait_for("READY")], "s", "load + 10 s")
        finally:
            begun = time.monotonic()
            appliance.stop()
            show("real pair: idle stop", [time.monotonic() - begun], "s", "< 10 s")


def role_ready(appliance: Appliance, name: str) -> float:
    """When the guard first heard 200 from the server's /ready, wall clock."""
    health = appliance.health()
    role = health["roles"][name]
    return float(health["heartbeat"]) - float(role["elapsed_s"]) + float(role["ready_after_s"])


def entered(appliance: Appliance, state: str) -> float:
    return float(next(event["time"] for event in reversed(appliance.health()["events"]) if event["to"] == state))


def health_cpu(appliance: Appliance) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "dsv4_pd", "health"], env=appliance.environ, stdout=subprocess.DEVNULL,
                   check=False)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def latencies(rounds: int) -> None:
    """Over stubs: each round kills decode once."""
    leave, back, ready = [], [], []
    from dataclasses import replace

    limits = replace(QUICK, restart_limit=10_000)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), limits) as stub:
        stub.wait_state("READY")
        for _ in range(rounds):
            time.sleep(0.7)
            begun = time.monotonic()
            stub.kill("decode")
            leave.append(stub.wait(lambda: stub.health().get("state") != "READY"))
            stub.wait_state("READY")
            back.append(time.monotonic() - begun)
            health = stub.health()
            role = health["roles"]["decode"]
            first = health["heartbeat"] - role["elapsed_s"] + role["ready_after_s"]
            ready.append(health["since"] - first)
    show("stubs: kill decode -> not READY", leave, "s", "<= 2 s")
    show("stubs: kill decode -> READY again (stub loads in 0.1 s)", back, "s", "-")
    show("stubs: decode ready -> READY", ready, "s", "<= 2 s")


def front(rounds: int) -> bool:
    """Over stubs: the real front is killed, then stopped in its tracks; until a client is answered again. Whether both
    are within what is promised, by their medians.
    """
    from dataclasses import replace

    dead: list[float] = []
    stalled: list[float] = []
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), replace(QUICK, restart_limit=10_000)) as stub:
        for _ in range(rounds):
            for number, times in ((signal.SIGKILL, dead), (signal.SIGSTOP, stalled)):
                stub.wait_state("READY")
                time.sleep(2.0)  # a canary of its own has gone through
                old, begun = stub.pid("front"), time.monotonic()
                os.kill(old, number)
                stub.wait(lambda: answered(stub.api), 120)
                times.append(time.monotonic() - begun)
                assert stub.pid("front") != old
    show("stubs: kill the front -> a client is answered", dead, "s", f"<= {DEAD_S} s")
    show("stubs: stop the front -> a client is answered", stalled, "s", f"<= {STALLED_S} s")
    return statistics.median(dead) <= DEAD_S and statistics.median(stalled) <= STALLED_S


def answered(port: int) -> bool:
    """Whether a completion comes back through the front now."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=0.5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("POST", "/v1/completions", json.dumps({"model": "stub", "prompt": "x"}))
        return bool(connection.getresponse().status == 200)
    return False


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--front-only", action="store_true", help="deaths and stalls of the front, and no more")
    parser.add_argument("--stubs-only", action="store_true", help="without the real pair")
    options = parser.parse_args()
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start")
    kept = front(max(3, options.rounds // 4))
    if not options.front_only:
        latencies(options.rounds)
    if not (options.stubs_only or options.front_only):
        costs(options.rounds)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
