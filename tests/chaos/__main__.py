"""`python -m chaos [--faults N] [--seed S] [--router NAME]`, from tests/: exit 0 when the target is met.

Target: every fault is followed by READY, no request hangs, no answer is wrong, nothing is left behind, and while the
state says READY at most one well-formed request in a thousand fails (`account` says which ones count), of at least 50
for each fault: 3,000 for 60.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dsv4_pd.run.states import SERVING
from support.appliance import Appliance

from chaos import bounds, faults, isolate
from chaos.account import Disturbance, Kind, Timeline, hangs, kind_of, sums
from chaos.broken import Broken
from chaos.load import Load, Record

BACK_S = 420.0  # a reload takes half a minute on two idle cores, and much longer on busy ones
MAY_FAIL = 0.001  # of the well-formed requests while READY
EACH = 50  # of those that are counted, for each fault
QUOTA_S = 120.0  # how long they are waited for after one fault
STEADY_S = 3.0


@dataclass(slots=True)
class Watcher:
    """Reads the published state 20 times a second, on a clock of its own."""

    appliance: Appliance
    timeline: Timeline = field(default_factory=lambda: Timeline([]))
    end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.end.is_set():
            state = self.appliance.state()
            if state == "none":  # the file is being written in place, on a full disk: what it said before holds
                pass
            elif not self.timeline.changes or state != self.timeline.changes[-1][1]:
                self.timeline.changes.append((time.monotonic(), state))
            self.end.wait(0.05)


@dataclass(slots=True)
class Report:
    """What the run showed."""

    done: list[Disturbance] = field(default_factory=list)
    never_back: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # what the faults themselves found
    leftovers: list[str] = field(default_factory=list)
    exit_code: int | None = None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--router", choices=("sglang-router", "smg"), default="sglang-router")
    parser.add_argument("--only", default="", help="only faults whose name matches this expression")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no fault after so many seconds")
    options = parser.parse_args()
    isolate.enter()
    with folder() as root:
        shm = set(Path("/dev/shm").iterdir())
        limits = {"DSV4_RESTART_LIMIT": "1000", "DSV4_DRAIN_TIMEOUT": "10s", "DSV4_ROUTER": options.router}
        appliance = Appliance(root, limits | faults.environment(root, clock_library(root)))
        with appliance:
            report, load, watcher = disturb(appliance, options)
            report.exit_code = appliance.stop()
        if report.never_back or report.broken or report.exit_code:
            print(*appliance.log.read_text(errors="replace").splitlines()[-60:], sep="\n")
        report.leftovers = [*appliance.leftovers(), *map(str, set(Path("/dev/shm").iterdir()) - shm)]
        return tell(report, load.record, watcher.timeline, options)


def disturb(appliance: Appliance, options: argparse.Namespace) -> tuple[Report, Load, Watcher]:
    """All faults, one after the other, under load."""
    choose, report, watcher = random.Random(options.seed), Report(), Watcher(appliance)
    wanted = [fault for fault in faults.FAULTS if re.search(options.only, fault.name)]
    table = [fault for fault in wanted if fault.needs()]
    if left_out := [fault.name for fault in wanted if fault not in table]:
        print(f"left out, what they need is not here: {', '.join(left_out)}", flush=True)
    dealt = faults.deal(choose, table)
    load = Load(appliance.ports["DSV4_PORT"], options.clients, options.seed)
    load.learn()
    threading.Thread(target=watcher.run, daemon=True).start()
    load.start()
    begun = time.monotonic()
    for number in range(1, options.faults + 1):
        if time.monotonic() - begun > options.budget_s:
            break
        fault, at, mark = next(dealt), time.monotonic(), len(load.record.requests)
        what = act(fault, appliance, choose, report)
        report.done.append(Disturbance(at, time.monotonic(), bounds.seconds(fault.bound)))
        back = back_again(appliance) and enough(load, watcher, report, mark)
        out = Timeline(watcher.timeline.changes[:]).outside(SERVING, time.monotonic())
        print(f"{number:3}/{options.faults} {what:<66} took {time.monotonic() - at:6.1f} s, "
              f"not serving so far {out:6.1f} s{'' if back else '  NOT BACK'}", flush=True)  # fmt: skip
        if not back:
            report.never_back.append(what)
            break
    load.stop()
    watcher.end.set()
    return report, load, watcher


def act(fault: faults.Fault, appliance: Appliance, choose: random.Random, report: Report) -> str:
    """Do it; what it finds broken itself fails the run."""
    try:
        return fault.act(appliance, choose)
    except Broken as error:
        report.broken.append(str(error))
        return f"{fault.name}: {error}"


def enough(load: Load, watcher: Watcher, report: Report, mark: int) -> bool:
    """Wait until enough requests were counted since then for one in a thousand to mean something; `tell` judges."""
    deadline = time.monotonic() + QUOTA_S
    while time.monotonic() < deadline:
        found = sums(load.record.requests[mark:], Timeline(watcher.timeline.changes[:]), report.done[-1:])
        if found.ready >= EACH:
            break
        time.sleep(0.5)
    return True


def back_again(appliance: Appliance) -> bool:
    """Whether READY is back and holds; the state may still be that of before the fault, so it must hold for a while."""
    deadline, steady = time.monotonic() + BACK_S, time.monotonic()
    while time.monotonic() < deadline and appliance.process.poll() is None:
        health = appliance.health()
        fresh = time.monotonic() - health.get("heartbeat_monotonic", 0.0) < 3
        if health.get("state") not in SERVING or not fresh:
            steady = time.monotonic()
        elif time.monotonic() - steady > STEADY_S:
            return True
        time.sleep(0.05)
    return False


def tell(report: Report, record: Record, timeline: Timeline, options: argparse.Namespace) -> int:
    """Print the figures; returns the exit code."""
    found = sums(record.requests, timeline, report.done)
    hung = [request for request in record.requests if hangs(request, report.done)]
    failed = [request.ended - request.begun for request in record.requests if request.failure]
    print(f"\nseed {options.seed}, {options.router}: {len(report.done)} faults; errors: {dict(record.errors)}, "
          f"slowest {max(failed, default=0.0):.1f} s; {len(hung) + record.unfinished} hung, {len(record.wrong)} wrong, "
          f"left behind: {len(report.leftovers)}, exit code {report.exit_code}")  # fmt: skip
    for kind in Kind:
        print(f"  {kind.value:<36} {found.answered[kind]:6} answered {found.failed[kind]:6} failed")
    print(f"  failed while READY: {100 * found.failure_rate:.3f} % of {found.ready} (at most {100 * MAY_FAIL} %)")
    ready = [r for r in record.requests if r.failure and kind_of(r, timeline, report.done) is Kind.READY]
    first = report.done[0].begun if report.done else 0.0
    lines = [f"failed while READY, {r.begun - first:.1f} to {r.ended - first:.1f} s: {r.failure}" for r in ready[:10]]
    lines += [f"hung: {r.begun - first:.1f} to {r.ended - first:.1f} s: {r.failure}" for r in hung[:5]]
    few = found.ready < EACH * len(report.done)
    if few:
        lines.append(f"too few requests counted: {found.ready}, expected at least {EACH * len(report.done)}")
    for line in (*lines, *record.wrong[:5], *report.leftovers, *report.never_back, *report.broken):
        print(f"  {line}")
    bad = hung or record.wrong or record.unfinished or report.leftovers or report.never_back or report.broken
    return int(bool(bad) or bool(report.exit_code) or few or found.failure_rate > MAY_FAIL)


@contextmanager
def folder() -> Iterator[Path]:
    """The appliance's folder; its run folder is a small tmpfs where we may mount one, so that it can be filled."""
    root = Path(tempfile.mkdtemp(prefix="chaos-"))
    run = root / "run"
    run.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "chaos", str(run)]
    mounted = os.geteuid() == 0 and not subprocess.run(mount, capture_output=True, check=False).returncode
    if not mounted:
        print("no tmpfs of its own (needs root): the full-disk fault fills nothing")
        faults.FAULTS = tuple(fault for fault in faults.FAULTS if fault.act is not faults.fill_run_folder)
    try:
        yield root
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(run)], check=False)
        shutil.rmtree(root, ignore_errors=True)


def clock_library(root: Path) -> Path:
    """The preloaded library that lets the wall clock jump."""
    library = root / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
    return library


if __name__ == "__main__":
    sys.exit(main())
