"""Find and end what a run left behind: every process of ours carries the run folder in its environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "DSV4_RUN_MARK"


def find(run: Path, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Pids of the processes that belong to this run folder, ourselves excepted.

    Descendants count without the mark: a program that sets its title writes over its environment.
    """
    needle = f"{MARK}={run}".encode()
    ours = {pid for pid in _pids(proc) if needle in _environ(proc, pid)} - {os.getpid()}
    parents = {pid: _parent(proc, pid) for pid in _pids(proc)}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return tuple(sorted(ours))


def kill(run: Path, wait_s: float = 5.0) -> int:
    """SIGKILL all of them and wait until they are gone; how many there were."""
    pids = find(run)
    for pid in pids:
        _send(pid, signal.SIGKILL)
    deadline = time.monotonic() + wait_s
    while find(run) and time.monotonic() < deadline:
        for pid in find(run):  # a child that was born meanwhile
            _send(pid, signal.SIGKILL)
        time.sleep(0.05)
    return len(pids)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(pid, number)


def _pids(proc: Path) -> Iterator[int]:
    return (int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())


def _environ(proc: Path, pid: int) -> list[bytes]:
    """A process's environment; empty for a zombie, another user's process, or one that is gone."""
    try:
        return (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _parent(proc: Path, pid: int) -> int:
    """Its parent's pid; 0 when it is gone. The name in brackets may hold blanks and brackets itself."""
    try:
        return int(
            (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        )
    except (OSError, IndexError):
        return 0
