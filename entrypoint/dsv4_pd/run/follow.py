"""Follow a capped log file across supervisord's rotation, without holding more than one unfinished line."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path

MAX_LINE = 64 * 1024  # a longer line is cut, so that a flood without newlines can't fill the memory


class Follower:
    """Whole lines appended to one file since the last call; a rotated file is read to its end first."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self.path = path
        self._file: BufferedReader | None = None
        self._rest = b""
        if from_end and self._open():
            assert self._file is not None
            self._file.seek(0, os.SEEK_END)

    def lines(self, limit: int = 2000) -> list[str]:
        """At most `limit` new lines; carriage returns (progress bars) end a line too."""
        found: list[str] = []
        while len(found) < limit:
            if self._file is None and not self._open():
                break
            assert self._file is not None
            chunk = self._file.read(MAX_LINE)
            if chunk:
                found += self._split(chunk)
            elif not self._rotated():
                break
        return found

    def _open(self) -> bool:
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:
            return False
        return True

    def _rotated(self) -> bool:
        """Whether the path names another file by now, or the file was cut; closes the old one then."""
        assert self._file is not None
        mine = os.fstat(self._file.fileno())
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return False
        if now.st_ino == mine.st_ino and now.st_size >= self._file.tell():
            return False
        self._file.close()
        self._file = None
        return True

    def _split(self, chunk: bytes) -> list[str]:
        parts = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = parts.pop()[-MAX_LINE:]
        return [part.decode("utf-8", "replace") for part in parts if part.strip()]
