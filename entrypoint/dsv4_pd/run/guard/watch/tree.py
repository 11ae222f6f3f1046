"""Process trees through /proc: who is in one, whether it works, how it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from dsv4_pd.run.supervision import family
from dsv4_pd.run.supervision import shared_memory as _shared_memory

PROC = Path("/proc")
pids = family.pids
shared_memory, unlink = _shared_memory.mapped, _shared_memory.unlink
WORKERS = (b"sglang::scheduler", b"sglang::detokenizer")


def group_of(pid: int) -> int | None:
    """The process group of a process; None when it is gone. supervisord makes each program a group leader."""
    try:
        return os.getpgid(pid) if pid > 0 else None
    except OSError:
        return None


def members(group: int) -> frozenset[int]:
    """The processes of a group, and whoever descends from one: ninja puts each compiler into a group of its own."""
    kin = {pid: found for pid in pids() if (found := _kin(pid))}
    who = {pid for pid, (_, of) in kin.items() if of == group}
    while more := {pid for pid, (parent, _) in kin.items() if parent in who} - who:
        who |= more
    return frozenset(who)


def _kin(pid: int) -> tuple[int, int] | None:
    """(parent, process group); None when it is gone."""
    fields = _stat(pid)
    return (int(fields[1]), int(fields[2])) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields behind a process's name, its state first; none when it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def workers(who: frozenset[int]) -> frozenset[int]:
    """The engine's own long-lived children among them: SGLang names them, and compilers come and go beside them."""
    found = set()
    for pid in who:
        with contextlib.suppress(OSError):
            if (PROC / str(pid) / "cmdline").read_bytes().startswith(WORKERS):
                found.add(pid)
    return frozenset(found)


def work_of(group: int) -> tuple[frozenset[int], int]:
    """Who belongs to the group and how many bytes they have read: both stand still in a start that hangs, while one
    that compiles starts processes and one that loads from a slow disk reads.
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


def at_work(pid: int) -> tuple[bool, float]:
    """Whether a process runs, waits for a processor or for a disk at this moment, and the seconds that it has computed.
    One that is stopped, or asleep, does neither; nor does one that is gone.
    """
    fields = _stat(pid)
    if not fields:
        return False, 0.0
    return fields[0] in ("R", "D"), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
