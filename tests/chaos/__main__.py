"""`python -m chaos [--faults N] [--seed S] [--router NAME] [--layout TEXT] [--record]`, from tests/.

Exit 0 when the target is met.

Target: every fault is followed by READY, no request hangs, no answer is wrong, nothing is left behind, and while the
state says READY at most one well-formed request in a thousand fails (`account` says which ones count), of at least 50
for each fault: 3,000 for 60. With `--record` it does what records/ does not tell of yet, in slices of any length.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.appliance import Appliance

from chaos import faults, isolate, records
from chaos.account import Kind, Timeline, hangs, kind_of, sums
from chaos.clients import Clients, Outcomes
from chaos.run import EACH, Order, Report, Run, Watcher

MAY_FAIL = 0.001  # of the well-formed requests while READY


def main() -> int:
    options = parsed()
    isolate.enter()
    order = ordered(options)
    if order.first > order.last:
        print(f"{options.router}, seed {options.seed}: all {order.last} faults are recorded")
        return 0
    with folder() as root:
        shm, begun = set(Path("/dev/shm").iterdir()), time.monotonic()
        limits = {"DSV4_RESTART_LIMIT": "1000", "DSV4_DRAIN_TIMEOUT": "10s", "DSV4_ROUTER": options.router,
                  "DSV4_LAYOUT": options.layout}  # fmt: skip
        appliance = Appliance(root, limits | faults.environment(root, clock_library(root)))
        with appliance:
            started_s = time.monotonic() - begun
            run = Run(
                appliance, Clients(appliance.ports["DSV4_PORT"], options.clients, options.seed), Watcher(appliance)
            )
            recorder = records.Recorder(records.path(options.router, options.seed), mark(options), run)
            under_load(run, order, recorder if options.record else None)
            run.report.exit_code = appliance.stop()
        report = run.report
        if report.never_back or report.broken or report.exit_code:
            print(*appliance.log.read_text(errors="replace").splitlines()[-60:], sep="\n")
        report.leftovers = [*appliance.leftovers(), *map(str, set(Path("/dev/shm").iterdir()) - shm)]
        if options.record:
            recorder.end(started_s, time.monotonic() - begun)
        return tell(report, run.clients.outcomes, run.watcher.timeline,
                    f"seed {options.seed}, {options.router}, {options.layout}")  # fmt: skip


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=60, help="how long the sequence is")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--router", choices=("sglang-router", "smg"), default="sglang-router")
    parser.add_argument("--layout", default="pd", help="as DSV4_LAYOUT: pd, replicas:2x1; records are of pd")
    parser.add_argument("--only", default="", help="only faults whose name matches this expression")
    parser.add_argument("--first", type=int, default=0, help="number of the first fault; with --record, the next one")
    parser.add_argument("--count", type=int, default=0, help="how many of the sequence; 0: all that are left")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no fault later than this")
    parser.add_argument("--record", action="store_true", help="append what is seen to chaos/records/")
    return parser.parse_args()


def ordered(options: argparse.Namespace) -> Order:
    """The slice that is asked for."""
    known = records.next_number(records.read(), options.router, options.seed) if options.record else 1
    first = options.first or known
    last = min(options.faults, first + options.count - 1) if options.count else options.faults
    return Order(options.seed, first, last, options.only, options.clients, time.monotonic() + options.budget_s)


def mark(options: argparse.Namespace) -> records.Line:
    """What each line of a slice begins with."""
    return {"router": options.router, "seed": options.seed, "commit": records.commit(),
            "slice": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}  # fmt: skip


def under_load(run: Run, order: Order, recorder: records.Recorder | None) -> None:
    """The slice, while clients ask."""
    run.clients.learn()
    threading.Thread(target=run.watcher.run, daemon=True).start()
    run.clients.start()
    if recorder:
        run.disturb(order, recorder.fault)
    else:
        run.disturb(order)
    run.clients.stop()
    run.watcher.end.set()


def tell(report: Report, asked: Outcomes, timeline: Timeline, what: str) -> int:
    """Print the figures; returns the exit code."""
    found = sums(asked.requests, timeline, report.done)
    hung = [request for request in asked.requests if hangs(request, report.done)]
    failed = [request.ended - request.begun for request in asked.requests if request.failure]
    print(f"\n{what}: {len(report.done)} faults; errors: {dict(asked.errors)}, "
          f"slowest {max(failed, default=0.0):.1f} s; {len(hung) + asked.unfinished} hung, {len(asked.wrong)} wrong, "
          f"left behind: {len(report.leftovers)}, exit code {report.exit_code}")  # fmt: skip
    for kind in Kind:
        print(f"  {kind.value:<36} {found.answered[kind]:6} answered {found.failed[kind]:6} failed")
    print(f"  failed while READY: {100 * found.failure_rate:.3f} % of {found.ready} (at most {100 * MAY_FAIL} %)")
    ready = [r for r in asked.requests if r.failure and kind_of(r, timeline, report.done) is Kind.READY]
    first = report.done[0].begun if report.done else 0.0
    lines = [f"failed while READY, {r.begun - first:.1f} to {r.ended - first:.1f} s: {r.failure}" for r in ready[:10]]
    lines += [f"hung: {r.begun - first:.1f} to {r.ended - first:.1f} s: {r.failure}" for r in hung[:5]]
    few = found.ready < EACH * len(report.done)
    if few:
        lines.append(f"too few requests counted: {found.ready}, expected at least {EACH * len(report.done)}")
    for line in (*lines, *asked.wrong[:5], *report.leftovers, *report.never_back, *report.broken):
        print(f"  {line}")
    bad = hung or asked.wrong or asked.unfinished or report.leftovers or report.never_back or report.broken
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
