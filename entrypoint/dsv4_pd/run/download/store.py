"""The model's folder in the Hugging Face cache: blobs, what is half there, and the lock that makes us the only one.

Layout by huggingface_hub's own page on its cache: `blobs/ETAG`, `snapshots/COMMIT/NAME` as links to them, `refs/NAME`.
Ours in it: `blobs/ETAG.part`, which another start resumes, and `.dsv4-pd/`. Large files go by their SHA-256,
small ones by git's SHA-1 of a blob, so a file's name says what has to be in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dsv4_pd.plan.model.files import repository

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")
_BLOCK = 4 << 20


@dataclass(frozen=True, slots=True)
class Store:
    """One model in the cache."""

    cache: Path  # the hub folder
    model: str

    @property
    def base(self) -> Path:
        """The model's own folder."""
        return repository(self.cache, self.model)

    def blob(self, etag: str) -> Path:
        """A whole file."""
        return self.base / "blobs" / etag

    def part(self, etag: str) -> Path:
        """The beginning of a file."""
        return self.base / "blobs" / f"{etag}.part"

    def snapshot(self, commit: str) -> Path:
        """The folder that an engine reads."""
        return self.base / "snapshots" / commit

    def have(self, etag: str, size: int) -> int:
        """Bytes of a file that are here; what has another length than the file, or a part more than it, is none."""
        if _size(self.blob(etag)) == size:
            return size
        part = _size(self.part(etag))
        return part if part <= size else 0

    def clear(self, etag: str, size: int) -> None:
        """Remove what can't be the file or its beginning, so that its room counts as free."""
        for path, wrong in ((self.blob(etag), _size(self.blob(etag)) != size),
                            (self.part(etag), _size(self.part(etag)) > size)):  # fmt: skip
            if wrong:
                path.unlink(missing_ok=True)

    def sweep(self) -> int:
        """Remove what killed downloads of the Hub's library left: it can't go on with them; returns the bytes freed.

        Each is that of a process that holds the file's lock while it lives.
        """
        freed = 0
        locks = self.cache / ".locks" / self.base.name
        for path in self.base.glob("blobs/*.incomplete"):
            if not _held(locks / f"{path.name.split('.')[0]}.lock"):
                with contextlib.suppress(OSError):
                    size = path.stat().st_size
                    path.unlink()
                    freed += size
        return freed


def _size(path: Path) -> int:
    """Bytes; 0 where nothing can be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _held(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class Lock:
    """One downloader for a model on a volume; the holder's file says how far it is."""

    def __init__(self, store: Store) -> None:
        self._path = store.base / ".dsv4-pd" / "lock"
        self._file: IO[str] | None = None

    def take(self) -> bool:
        """Whether we are the one; held until `release` or the end of this process.

        Raises:
            OSError: the folder can't be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._file = file
        return True

    def tell(self, total: int | None, fetched: int, checked: int) -> None:
        """What those who wait show."""
        if self._file is not None:
            told = {"host": socket.gethostname(), "pid": os.getpid(), "total": total, "fetched": fetched}
            with contextlib.suppress(OSError):
                self._file.seek(0)
                self._file.truncate()
                self._file.write(json.dumps(told | {"checked": checked}))
                self._file.flush()

    def told(self) -> dict[str, Any]:
        """What the holder says; {} while it writes."""
        try:
            data = json.loads(self._path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def release(self) -> None:
        """Let the next one."""
        if self._file is not None:
            self._file.close()
            self._file = None


def by_name(path: Path) -> str | None:
    """The hash that a blob's name promises; None where the name is no hash (some mirrors' own ETags).

    >>> by_name(Path("blobs/config.json")) is None
    True
    """
    name = path.resolve().name
    return name if _SHA256.fullmatch(name) or _SHA1.fullmatch(name) else None


def digest(path: Path, expected: str, seen: Callable[[int], object]) -> str:
    """The hash of a file, of the kind that `expected` is: SHA-256, or git's SHA-1 of a blob.

    Raises:
        OSError: it can't be read.
    """
    if len(expected) == 64:
        found = hashlib.sha256()
    else:
        found = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    for block in _blocks(path):
        found.update(block)
        seen(len(block))
    return found.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
