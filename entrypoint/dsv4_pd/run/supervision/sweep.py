"""Find and end what a run left behind: its processes and their shared memory."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from dsv4_pd.plan.disk import run_mark
from dsv4_pd.run.supervision import family, shared_memory

SESSIONS = "ours/sessions"


def remember_session(run: Path, leader: int) -> None:
    """Note the session of a supervisord that was started for this run folder: `BOOT/NAMESPACE LEADER STARTED`.

    Overwrites in place, and forgets sessions that nobody is in any more: the file stays within its first block, so a
    run folder that is full by now takes it all the same.
    """
    people = family.everyone()
    alive = {process.session for process in people.values()}
    kept = {number: start for number, start in _sessions(run).items() if number in alive}
    if leader in people:
        kept[leader] = people[leader].started
    here = _here()
    run_mark.write_lines(run / SESSIONS, [f"{here} {number} {start}" for number, start in sorted(kept.items())])


def find(run: Path) -> tuple[int, ...]:
    """Pids of the processes that belong to this run folder, ourselves excepted."""
    return tuple(sorted(family.ours(family.everyone(), run_mark.known(run), _sessions(run), os.getpid())))


def kill(run: Path, wait_s: float = 5.0) -> int:
    """SIGKILL all of them, wait until they are gone, remove their shared memory; how many there were."""
    pids = find(run)
    files = shared_memory.mapped(pids) | shared_memory.noted(run / "health.json")
    for pid in pids:
        _send(pid, signal.SIGKILL)
    deadline = time.monotonic() + wait_s
    while (late := find(run)) and time.monotonic() < deadline:
        files |= shared_memory.mapped(late)
        for pid in late:  # a child that was born meanwhile
            _send(pid, signal.SIGKILL)
        time.sleep(0.05)
    shared_memory.unlink(files)
    return len(pids)


def begin(run: Path) -> str:
    """The mark of a new run, once what a former one left in this folder is ended."""
    left = run_mark.known(run) if find(run) else ()  # a process that the kernel does not let go of
    return run_mark.begin(run, left)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended by itself, or changed its user
        os.kill(pid, number)


def _here() -> str:
    """Where a process number means what it meant: this boot, this PID namespace. A container that was restarted over
    the same run folder counts from one again.
    """
    return f"{run_mark.boot_id()}/{Path('/proc/self/ns/pid').readlink()}"


def _sessions(run: Path) -> dict[int, int]:
    """The sessions noted here, leader -> when it started."""
    here = _here()
    lines = [words for words in run_mark.read_lines(run / SESSIONS) if len(words) == 3 and words[0] == here]
    return {int(number): int(start) for _, number, start in lines if number.isdecimal() and start.isdecimal()}
