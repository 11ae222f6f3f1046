"""One line of JSON for each request, without a word of its content. Append-only; a moved file is begun again."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

log = logging.getLogger("dsv4_pd.run.front")


@dataclass(slots=True)
class Entry:
    """What is written of one request; times in seconds, sizes in bytes."""

    time: str
    id: str
    key: str
    client: str
    method: str
    route: str
    dialect: str
    status: int = 0
    stream: bool = False
    seconds: float = 0.0
    first_s: float | None = None
    waited_s: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    events: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    ended: str = "whole"  # "whole", "client left", "upstream broke", "refused"


class RequestLog:
    """`path`: a file, "-" for stdout, None for none."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self.lost = 0

    def write(self, entry: Entry) -> None:
        """Append one line; a full disk costs the line, never the request."""
        if self._path is None:
            return
        try:
            self._open().write(orjson.dumps(entry) + b"\n")
            if self._path == "-":
                sys.stdout.buffer.flush()
        except OSError as error:
            if not self.lost:
                log.warning("request log %s: %s", self._path, error.strerror)
            self.lost += 1

    def _open(self) -> Any:
        """The file under that name now: whoever rotates logs moves the old one away."""
        assert self._path is not None
        if self._path == "-":
            return sys.stdout.buffer
        if self._file is not None and not _is(self._file, self._path):
            self._file.close()
            self._file = None
        if self._file is None:
            number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            self._file = os.fdopen(number, "wb", buffering=0)
        return self._file


def _is(file: BinaryIO, path: str) -> bool:
    try:
        there, ours = Path(path).stat(), os.fstat(file.fileno())
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
