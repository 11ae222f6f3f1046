"""Files below /dev/shm: a process that is killed leaves them there forever."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path("/dev/shm")
PROC = Path("/proc")


def mapped(who: Iterable[int], folder: Path = FOLDER) -> frozenset[str]:
    """Files below /dev/shm that these processes have mapped.

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


def unlink(paths: Iterable[str]) -> None:
    """Remove files of processes that are gone."""
    for path in paths:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def noted(health: Path, folder: Path = FOLDER) -> frozenset[str]:
    """The servers' files as the guard last published them: those of servers that ended before anybody looked.

    Only names that lie directly in the folder and are ours: the note may be older than the files.
    """
    try:
        data = json.loads(health.read_text(encoding="utf-8"))
        paths = [str(path) for files in data["memory"]["shared_memory"].values() for path in files]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return frozenset()
    return frozenset(path for path in paths if Path(path).parent == folder and _is_mine(Path(path)))


def _is_mine(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.getuid()
    except OSError:
        return False
