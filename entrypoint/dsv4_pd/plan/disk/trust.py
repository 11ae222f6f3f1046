"""Whether a folder is ours alone: what lies in it is executed, and secrets are written into it.

A predictable name below /tmp can be taken by anybody beforehand: as a folder of theirs, or as a link. So below a folder
that others may write every level must be ours or root's and no link, down to one that others can't write; and the
folder itself must be ours wherever it lies.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CONTAINER = ("/.dockerenv", "/run/.containerenv", "/run/secrets/kubernetes.io")


def make(path: Path) -> None:
    """Create it and what is missing above it, each level with mode 0700 whatever the umask is.

    Raises:
        OSError: it can't be made.
    """
    missing = [level for level in (path, *path.parents) if not os.path.lexists(level)]
    for level in reversed(missing):
        level.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        path.mkdir()  # raises what is in the way


def read_refusal(path: Path) -> str | None:
    """Why what a file says must not be believed: somebody else may have put it there. Changes nothing.

    Raises:
        OSError: it is not there, or can't be looked at.
    """
    return _above(path)


def secure(path: Path) -> str | None:
    """Remove others' access to what is ours; the problem that remains, or None once it is ours alone."""
    if wrong := _above(path) or _itself(path):
        return wrong
    mode = stat.S_IMODE(path.stat().st_mode)
    if _is_mine(path) and mode & 0o077:
        path.chmod(mode & 0o700)
        return _planted(path) if mode & _OTHERS_WRITE else None
    return None


def _itself(path: Path) -> str | None:
    found = path.stat()
    if _is_volume(path, found) or found.st_uid == os.geteuid():
        return None
    return f"{str(path)!r}, owned by uid {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}"


def _above(path: Path) -> str | None:
    """The problem of a level below a folder that others may write."""
    shared = ""
    for level in _levels(path):
        found = level.lstat()
        if shared:
            what = "a link" if stat.S_ISLNK(found.st_mode) else ""
            what = what or (f"owned by uid {found.st_uid}" if found.st_uid not in (0, os.geteuid()) else "")
            if what:
                return f"{str(level)!r}, {what}, below {shared!r} that others may write"
            shared = shared if found.st_mode & _OTHERS_WRITE else ""  # a private level keeps others out of all below
        if stat.S_ISDIR(found.st_mode) and level != path and found.st_mode & stat.S_IWOTH:
            if not found.st_mode & stat.S_ISVTX and not _is_volume(level, found):
                return f"{str(level)!r}, mode {stat.S_IMODE(found.st_mode):04o}: others may replace what is below it"
            shared = str(level)
    return None


def _levels(path: Path, links: int = 40) -> Iterator[Path]:
    """Every folder and link on the way from the root to a path, links followed."""
    at, rest = Path("/"), list(path.absolute().parts[1:])
    yield at
    while rest:
        part = rest.pop(0)
        at = at.parent if part == ".." else at / part
        yield at
        if at.is_symlink() and links:
            links -= 1
            target = at.readlink()
            at = Path("/") if target.is_absolute() else at.parent
            rest = [*(target.parts[1:] if target.is_absolute() else target.parts), *rest]


def _is_volume(path: Path, found: os.stat_result) -> bool:
    """A volume that was put into this container alone: Kubernetes makes an emptyDir root's, mode 0777."""
    return found.st_uid == 0 and path.is_mount() and any(map(os.path.exists, _CONTAINER))


def _is_mine(path: Path) -> bool:
    return path.stat().st_uid == os.geteuid()


def _planted(folder: Path) -> str | None:
    """Something of another user in a folder that was open to others until now."""
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            item = Path(where) / name
            if item.lstat().st_uid not in (0, os.geteuid()):
                return f"{str(item)!r}, owned by uid {item.lstat().st_uid}, in a folder that others could write"
    return None
