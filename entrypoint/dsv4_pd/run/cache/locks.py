"""Locks that a killed build left in a cache folder, and that would hold up the next one.

The engine's compilers lock with flock, which the kernel gives up with its holder; PyTorch's extension builder (and
filelock where a file system has no flock) takes a file's existence for the lock and waits forever.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dsv4_pd.run.cache.systems import OURS

_BY_EXISTENCE = "lock"
_LONGEST_BUILD_S = 1800.0  # a lock of another appliance that is older was left behind


def stale(cache: Path, now: float, *, alone: bool) -> Iterator[tuple[str, str]]:
    """Path below the cache folder, and why the lock is in the way. Locks that nobody holds are removed when alone."""
    for path in _locks(cache):
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            reason = _unusable(path, found)
            if not reason and path.name == _BY_EXISTENCE and (alone or now - found.st_mtime > _LONGEST_BUILD_S):
                reason = "left behind by a build that was ended"
            if not reason and alone and _held(path):
                reason = "held by a process that is no appliance of this folder"
            if reason:
                yield str(path.relative_to(cache)), reason
            elif alone:
                path.unlink()


def _locks(cache: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(cache):
        if Path(where) == cache and OURS in folders:
            folders.remove(OURS)
        for name in (*folders, *files):
            if name == _BY_EXISTENCE or name.endswith(".lock"):
                yield Path(where) / name


def _unusable(path: Path, found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "a lock that is no file"
    if not os.access(path, os.R_OK | os.W_OK):
        return "a lock that can't be opened"
    return ""


def _held(path: Path) -> bool:
    with path.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False
