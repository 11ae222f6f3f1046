"""`python -m chaos [--faults N] [--seed S] [--clients C]`, from tests/: exit 0 when the target is met.

Target: every fault is followed by READY, no request hangs, no answer is wrong, nothing is left behind.
"""

from __future__ import annotations

import argparse
import os
import random
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

from chaos import faults
from chaos.load import BOUND_S, Load

BACK_S = 420.0  # a reload takes half a minute on two idle cores, and much longer on busy ones


@dataclass(slots=True)
class Watcher:
    """Reads the published state 20 times a second, on a clock of its own."""

    appliance: Appliance
    out_s: float = 0.0
    end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        last = time.monotonic()
        while not self.end.wait(0.05):
            now = time.monotonic()
            if self.appliance.state() not in SERVING:
                self.out_s += now - last
            last = now


@dataclass(slots=True)
class Report:
    """What the run showed."""

    done: int = 0
    never_back: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    exit_code: int | None = None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no fault after so many seconds")
    options = parser.parse_args()
    with folder() as root:
        shm = set(Path("/dev/shm").iterdir())
        limits = {"DSV4_RESTART_LIMIT": "1000", "DSV4_STALL_TIMEOUT": "60s", "DSV4_DRAIN_TIMEOUT": "10s"}
        appliance = Appliance(root, limits | faults.environment(root, clock_library(root)))
        with appliance:
            report, load, watcher = disturb(appliance, options)
            report.exit_code = appliance.stop()
        if report.never_back or report.exit_code:
            print(*appliance.log.read_text(errors="replace").splitlines()[-60:], sep="\n")
        report.leftovers = [*appliance.leftovers(), *map(str, set(Path("/dev/shm").iterdir()) - shm)]
        return tell(report, load, watcher, options)


def disturb(appliance: Appliance, options: argparse.Namespace) -> tuple[Report, Load, Watcher]:
    """All faults, one after the other, under load."""
    choose, report, watcher = random.Random(options.seed), Report(), Watcher(appliance)
    load = Load(appliance.ports["DSV4_PORT"], options.clients, options.seed)
    load.learn()
    load.start()
    threading.Thread(target=watcher.run, daemon=True).start()
    begun = time.monotonic()
    for number in range(1, options.faults + 1):
        if time.monotonic() - begun > options.budget_s:
            break
        out, at = watcher.out_s, time.monotonic()
        what = faults.pick(choose)(appliance, choose)
        back = back_again(appliance)
        report.done += 1
        print(f"{number:3}/{options.faults} {what:<58} out of READY {watcher.out_s - out:6.1f} s, "
              f"took {time.monotonic() - at:6.1f} s{'' if back else '  NOT BACK'}", flush=True)  # fmt: skip
        if not back:
            report.never_back.append(what)
            break
    load.stop()
    watcher.end.set()
    return report, load, watcher


def back_again(appliance: Appliance) -> bool:
    """Whether READY is back and holds; the state may still be that of before the fault, so it must hold for a while."""
    deadline, steady = time.monotonic() + BACK_S, time.monotonic()
    while time.monotonic() < deadline and appliance.process.poll() is None:
        health = appliance.health()
        fresh = time.monotonic() - health.get("heartbeat_monotonic", 0.0) < 3
        if health.get("state") not in SERVING or not fresh:
            steady = time.monotonic()
        elif time.monotonic() - steady > 3:
            return True
        time.sleep(0.05)
    return False


def tell(report: Report, load: Load, watcher: Watcher, options: argparse.Namespace) -> int:
    """Print the figures; returns the exit code."""
    tally = load.tally
    failed = sum(tally.errors.values())
    print(f"\nseed {options.seed}: {report.done} faults, {watcher.out_s:.0f} s out of READY; requests: {tally.ok} ok, "
          f"{failed} failed with an error (slowest {tally.slowest_error_s:.1f} s: {dict(tally.errors)}), "
          f"{len(tally.hung)} hung (bound {BOUND_S:.0f} s), {len(tally.wrong)} wrong; "
          f"left behind: {len(report.leftovers)}; exit code {report.exit_code}")  # fmt: skip
    for line in (*tally.hung[:5], *tally.wrong[:5], *report.leftovers, *report.never_back):
        print(f"  {line}")
    bad = tally.hung or tally.wrong or report.leftovers or report.never_back or report.exit_code or not tally.ok
    return int(bool(bad))


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
        faults.FAULTS = tuple(row for row in faults.FAULTS if row[1] is not faults.fill_run_folder)
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
