"""Which processes are ours: the one finder for the sweep of a whole run and for the restart of one program.

A process is ours when it carries the run's mark in its environment, is in a session that this run started, or descends
from one that is. The mark alone does not find all: a program that sets its title (the router, SGLang's schedulers)
writes over its environment.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dsv4_pd.plan.disk.run_mark import RUN_MARK

PROC = Path("/proc")
_MARK, _PROGRAM = f"{RUN_MARK}=".encode(), b"SUPERVISOR_PROCESS_NAME="


@dataclass(frozen=True, slots=True)
class Process:
    """One process that has not ended. `mark` and `program` are empty where its environment does not tell."""

    parent: int
    group: int
    session: int
    started: int  # clock ticks since boot: with the pid it names a process for good
    mark: str = ""
    program: str = ""  # as supervisord named it

    @property
    def named(self) -> bool:
        """Whether its environment says what it is."""
        return bool(self.mark and self.program)


def everyone(proc: Path = PROC) -> dict[int, Process]:
    """Every process that is visible; zombies excepted: they ended, and whoever collects them is not our business."""
    found = {pid: _read(proc / str(pid)) for pid in pids(proc)}
    return {pid: process for pid, process in found.items() if process}


def pids(proc: Path = PROC) -> Iterator[int]:
    """The number of every process that is visible."""
    return (int(entry.name) for entry in os.scandir(proc) if entry.name.isdecimal())


def ours(people: Mapping[int, Process], marks: Collection[str], sessions: Mapping[int, int], me: int) -> frozenset[int]:
    """The processes of the runs with these marks and sessions (leader -> when it started), `me` excepted.

    A session counts only while its number can't belong to somebody else: its leader is gone, and then the kernel does
    not give the number away while the session lasts, or it is the leader that was noted.
    """
    real = {sid for sid, start in sessions.items() if sid not in people or people[sid].started == start}
    found = {pid for pid, it in people.items() if it.session in real or (it.mark and it.mark in marks)} - {me}
    while more := {pid for pid, it in people.items() if it.parent in found} - found - {me}:
        found |= more
    return frozenset(found)


def leftovers(
    people: Mapping[int, Process], mark: str, session: int, name: str, living: Collection[int]
) -> frozenset[int]:
    """What a program that is down left behind. `living`: main processes in supervisord's list, asked after `people`.

    By name, where the environment tells; else whoever is in supervisord's session and neither in a living program's
    group nor descended from one: supervisord makes each program the leader of a group.
    """
    alive = {pid for pid, it in people.items() if pid in living or it.group in living or pid == session}
    while more := {pid for pid, it in people.items() if it.parent in alive - {session}} - alive:
        alive |= more
    named = {pid for pid, it in people.items() if mark and it.mark == mark and it.program == name}
    nameless = {pid for pid, it in people.items() if session and it.session == session and not it.named}
    return frozenset((named | nameless) - alive)


def programs(people: Mapping[int, Process], mark: str, session: int, me: int) -> frozenset[int]:
    """Every process below supervisord but supervisord itself and the group of `me`, the guard."""
    mine = people[me].group if me in people else me
    kin = {
        pid
        for pid, it in people.items()
        if (session and it.session == session) or (mark and it.mark == mark and it.program)
    }
    while more := {pid for pid, it in people.items() if it.parent in kin - {session}} - kin:
        kin |= more
    return frozenset(pid for pid in kin if pid != session and people[pid].group != mine)


def _read(folder: Path) -> Process | None:
    """A process from its folder in /proc. The name in brackets may hold blanks and brackets itself."""
    try:
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    if not stat or stat[0] in "ZX":
        return None
    mark, program = _marks(folder)
    return Process(int(stat[1]), int(stat[2]), int(stat[3]), int(stat[19]), mark, program)


def _marks(folder: Path) -> tuple[str, str]:
    """(mark, program); empty for another user's process, or one that wrote over its environment."""
    try:
        words = (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return "", ""
    return _value(words, _MARK), _value(words, _PROGRAM)


def _value(words: list[bytes], name: bytes) -> str:
    return next((word[len(name) :].decode(errors="replace") for word in words if word.startswith(name)), "")
