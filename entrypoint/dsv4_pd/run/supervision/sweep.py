"""Find and end what a run left behind: every process of ours carries the run folder in its environment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from dsv4_pd.plan.environment import RUN_MARK

SESSIONS = "sessions"


def remember_session(run: Path, leader: int) -> None:
    """Note the session of a supervisord that was started for this run folder.

    Overwrites in place, and forgets sessions that nobody is in any more: the file stays within its first block, so a
    run folder that is full by now takes it all the same.
    """
    proc = Path("/proc")
    alive = {_relations(proc, pid)[1] for pid in _pids(proc)}
    boot = _boot_id()
    text = "".join(f"{boot} {session}\n" for session in sorted((_sessions(run) & alive) | {leader}))
    with os.fdopen(os.open(run / SESSIONS, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(text.encode("ascii"))
        file.truncate()


def find(run: Path, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Pids of the processes that belong to this run folder, ourselves excepted.

    The mark alone does not find all: a program that sets its title (the router, SGLang's schedulers) writes over its
    environment. So whoever is in a session that was started for the folder counts too, and so do descendants.
    """
    needle = f"{RUN_MARK}={run}".encode()
    sessions = _sessions(run)
    relations = {pid: _relations(proc, pid) for pid in _pids(proc)}
    ours = {pid for pid, (_, session) in relations.items() if session in sessions or needle in _environ(proc, pid)}
    ours -= {os.getpid()}
    while more := {pid for pid, (parent, _) in relations.items() if parent in ours} - ours:
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


def _relations(proc: Path, pid: int) -> tuple[int, int]:
    """(parent, session); zeros when it is gone. The name in brackets may hold blanks and brackets itself."""
    try:
        fields = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0, 0
    # A zombie ended already; whoever collects it is none of our business.
    return (0, 0) if fields[0] == "Z" else (int(fields[1]), int(fields[3]))


def _sessions(run: Path) -> frozenset[int]:
    """The sessions noted since this machine booted: an older number may belong to anybody."""
    try:
        lines = (run / SESSIONS).read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return frozenset()
    boot = _boot_id()
    return frozenset(int(words[1]) for words in map(str.split, lines) if len(words) == 2 and words[0] == boot)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
