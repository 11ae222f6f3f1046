"""One entry: read every file of it once, and say whether it is what was written."""

from __future__ import annotations

import enum
import fnmatch
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dsv4_pd.run.cache import triton_index, whole
from dsv4_pd.run.cache.digests import Digest, File, file_of
from dsv4_pd.run.cache.systems import Entry, ignored, may_change

SETTLED_S = 60.0  # an entry that another appliance may still be writing is not judged before
ALONE = "."  # name of the only file of an entry that is a file


class EntryState(enum.Enum):
    """What is done with an entry."""

    WHOLE = enum.auto()
    UNFINISHED = enum.auto()  # its system makes it again by itself
    YOUNG = enum.auto()
    DAMAGED = enum.auto()


@dataclass(frozen=True, slots=True)
class Judgement:
    """files: what a whole entry's digest holds."""

    outcome: EntryState
    reason: str = ""
    files: Mapping[str, File] = field(default_factory=dict)


class Fault(Exception):
    """Why an entry can't be used, in words."""


def judge(entry: Entry, known: Digest | None, now: float, *, alone: bool) -> Judgement:
    """now: seconds since the epoch. alone: nobody else writes into this cache."""
    try:
        names = dict(_files(entry.path))
        if known is None and not alone and any(now - found.st_mtime < SETTLED_S for found in names.values()):
            return Judgement(EntryState.YOUNG)
        files = {name: file for name in names if (file := _file(entry, name, known)) is not None}
        _all_there(files, known)
        if entry.path.is_dir() and not _finished(entry, names):
            return Judgement(EntryState.UNFINISHED)
    except Fault as fault:
        return Judgement(EntryState.DAMAGED, str(fault))
    except FileNotFoundError:
        return Judgement(EntryState.YOUNG)  # its owner is just replacing it
    except OSError as error:
        return Judgement(EntryState.DAMAGED, f"can't be read ({error.strerror})")
    return Judgement(EntryState.WHOLE, files=files)


def _files(path: Path, at: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Name and state of each file, of the entry itself where it is one. Nothing is opened."""
    found = path.lstat()
    if found.st_uid not in (0, os.geteuid()):
        raise Fault(f"belongs to user {found.st_uid}")
    if stat.S_ISREG(found.st_mode):
        yield at or ALONE, found
    elif stat.S_ISDIR(found.st_mode):
        for inner in sorted(path.iterdir()):
            if not ignored(inner.name):
                yield from _files(inner, f"{at}/{inner.name}" if at else inner.name)
    else:
        raise Fault(f"{at or path.name} is no file")


def _file(entry: Entry, name: str, known: Digest | None) -> File | None:
    """The digest of one file; None for one that has none. Raises Fault when it is not what was written."""
    path = entry.path if name == ALONE else entry.path / name
    data = _read(path)
    if path.name.startswith("__grp__"):
        if reason := triton_index.fault(path, data):
            raise Fault(reason)
        return None
    if may_change(path.name):
        if reason := whole.fault(path.name, data):
            raise Fault(f"{path.name}: {reason}")
        return None
    written, found = known.files.get(name) if known else None, file_of(data)
    if written is None:
        if reason := whole.fault(path.name, data):
            raise Fault(f"{path.name}: {reason}")
    elif found.size != written.size:
        raise Fault(f"{path.name}: {found.size} bytes, {written.size} were written")
    elif found.sha256 != written.sha256:
        raise Fault(f"{path.name}: not the bytes that were written")
    return found


def _read(path: Path) -> bytes:
    """Neither follows a link nor waits for a pipe's writer, should one take the file's place."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        return file.read()


def _all_there(files: Mapping[str, File], known: Digest | None) -> None:
    gone = sorted(set(known.files) - set(files)) if known else []
    if gone:
        raise Fault(f"{gone[0]} is missing")


def _finished(entry: Entry, names: Mapping[str, object]) -> bool:
    """False where its system makes it again by itself. Raises Fault where the system would take it as it is."""
    for want in entry.system.needs:
        if not fnmatch.filter(names, want):
            raise Fault(f"no {want} in it")
    return not entry.system.last or any(fnmatch.filter(names, want) for want in entry.system.last)
