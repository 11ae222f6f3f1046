"""Process trees through /proc: whose a process is, whether a tree works, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
WORKERS = (b"sglang::scheduler", b"sglang::detokenizer")


def group_of(pid: int) -> int | None:
    """The process group of a process; None when it is gone. supervisord makes each program a group leader."""
    try:
        return os.getpgid(pid) if pid > 0 else None
    except OSError:
        return None


def pids() -> Iterator[int]:
    """Every process that is visible."""
    for entry in os.scandir(PROC):
        if entry.name.isdecimal():
            yield int(entry.name)


def members(group: int) -> frozenset[int]:
    """The processes of a group."""
    return frozenset(pid for pid in pids() if group_of(pid) == group)


def owned(socket: str, name: str = "") -> frozenset[int]:
    """Processes started by the supervisord at `socket` as program `name` (any when empty), escaped ones included.

    supervisord marks its children's environment, and a child that leaves the process group keeps the mark.
    """
    marks = [f"SUPERVISOR_SERVER_URL=unix://{socket}".encode()]
    marks += [f"SUPERVISOR_PROCESS_NAME={name}".encode()] if name else []
    mine = os.getuid()
    found: set[int] = set()
    for pid in pids():
        try:
            if (PROC / str(pid)).stat().st_uid == mine:
                environment = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
                found.update({pid} if all(mark in environment for mark in marks) else ())
        except OSError:
            continue
    return frozenset(found)


def workers(who: frozenset[int]) -> frozenset[int]:
    """The engine's own long-lived children among them: SGLang names them, and compilers come and go beside them."""
    found = set()
    for pid in who:
        with contextlib.suppress(OSError):
            if (PROC / str(pid) / "cmdline").read_bytes().startswith(WORKERS):
                found.add(pid)
    return frozenset(found)


def work_of(group: int) -> tuple[frozenset[int], int]:
    """Who is in the group and how many bytes it has read: both stand still in a start that hangs, while one that
    compiles starts processes and one that loads from a slow disk reads.
    """
    who = members(group)
    return who, sum(_bytes_read(pid) for pid in who)


def _bytes_read(pid: int) -> int:
    """Bytes that came from storage; what a process reads from pipes and caches moves in one that waits, too."""
    try:
        text = (PROC / str(pid) / "io").read_text()
    except OSError:
        return 0
    return sum(int(line.split(": ")[1]) for line in text.splitlines() if line.startswith("read_bytes"))


def kill_group(group: int) -> None:
    """End a whole process group at once."""
    with contextlib.suppress(OSError):  # already gone
        os.killpg(group, signal.SIGKILL)


def kill(who: frozenset[int]) -> None:
    """End processes at once, one by one."""
    for pid in who:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue


def shared_memory(who: frozenset[int], folder: Path = Path("/dev/shm")) -> frozenset[str]:
    """Files below /dev/shm that these processes have mapped: a process that is killed leaves them there for ever.

    Found by inode, because glibc maps a semaphore under a temporary name and links it to its own afterwards.
    """
    inodes: set[int] = set()
    for pid in who:
        with contextlib.suppress(OSError):
            lines = (PROC / str(pid) / "maps").read_text(errors="replace").splitlines()
            inodes.update(int(line.split(None, 5)[4]) for line in lines if f" {folder}/" in line)
    if not inodes:
        return frozenset()
    return frozenset(entry.path for entry in os.scandir(folder) if entry.inode() in inodes)


def unlink(paths: frozenset[str]) -> None:
    """Remove files of processes that are gone."""
    for path in paths:
        with contextlib.suppress(OSError):
            Path(path).unlink()
