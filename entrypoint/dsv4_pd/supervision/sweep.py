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
    """Pids of the processes that belong to this run folder, ourselves excepted."""
    needle = f"{MARK}={run}".encode()
    return tuple(pid for pid in _pids(proc) if pid != os.getpid() and needle in _environ(proc, pid))


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
