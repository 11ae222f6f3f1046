"""One answer's bytes into a file's part: nothing on the disk is given up for bytes that may be another's.

A login page, an error page or a proxy's own answer comes as 200 as well. What tells it from the file is its length; an
answer that names none has to begin with the bytes that are here, and to end where the file ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx2

from dsv4_pd.run.download import causes, classify
from dsv4_pd.run.download.causes import Asked, Failed
from dsv4_pd.run.download.listing import RemoteFile

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
Came = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an answer's bytes belong. Bytes of the part before `keep` stay; what is sent of them has to be the same."""

    start: int  # of the answer's first byte
    keep: int
    sure: bool  # the answer names its length, and it is the file's


def append(answer: httpx2.Response, file: RemoteFile, part: Path, came: Came, asked: Asked) -> None:
    """Write what is missing of the file; `came` is told, for every block, how many bytes of it are here by then.

    Raises:
        Failed: with the cause; what is not the file's is not kept.
    """
    have = part.stat().st_size if part.exists() else 0
    place = _place(answer, file, have, asked)
    with part.open("r+b" if have else "w+b") as out:
        if place.sure:
            out.truncate(place.keep)
            came(place.keep)
        size = place.start
        try:
            for block in answer.iter_bytes():  # as they come: what is collected is lost by a break
                _write(out, block, size, place.keep, file)
                size += len(block)
                came(max(size, place.keep))
            if size != file.size:
                raise _short(answer, size, place, file)
        except Failed as failed:
            if failed.cause is not causes.CUT:
                out.truncate(place.keep)
                came(place.keep)
            raise
        finally:
            out.flush()
            os.fsync(out.fileno())


def _write(out: IO[bytes], block: bytes, size: int, keep: int, file: RemoteFile) -> None:
    """Put one block behind `size` bytes; those before `keep` are here, and only compared."""
    if size + len(block) > file.size:
        raise Failed(causes.PORTAL, f"more bytes for {file.name} than its {file.size}")
    known = block[: max(0, keep - size)]
    out.seek(size)
    if known and out.read(len(known)) != known:
        raise Failed(causes.PORTAL, f"other bytes for {file.name} than those that came before")
    out.seek(size + len(known))
    out.write(block[len(known) :])


def _short(answer: httpx2.Response, size: int, place: _Place, file: RemoteFile) -> Failed:
    """Why less came than the file has. An answer without a length that says that this was all is not the file."""
    if place.sure or "chunked" not in answer.headers.get("Transfer-Encoding", "").lower():
        return Failed(causes.CUT, f"{file.name}: {max(size, place.keep)} of {file.size} bytes")
    return _other(answer, str(size), file)


def _place(answer: httpx2.Response, file: RemoteFile, have: int, asked: Asked) -> _Place:
    """Where in the file the answer belongs; nothing on the disk is touched before this is known."""
    if answer.status_code == 206:
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if match and int(match[1]) in (0, have) and int(match[3]) == file.size:
            return _Place(int(match[1]), int(match[1]), sure=True)
        raise _other(answer, match[3] if match else "unknown", file)
    if answer.status_code == 416:
        raise Failed(causes.PORTAL, f"416: what is there of {file.name} is shorter than its {file.size} bytes")
    if answer.status_code != 200:
        foreign = classify.elsewhere(answer.url, asked)
        raise classify.of_answer(answer.status_code, answer.headers, asked, foreign=foreign)
    length = answer.headers.get("Content-Length")
    if length is None:
        if "html" in _kind(answer) and not file.name.endswith((".html", ".htm")):
            raise _other(answer, "unknown", file)
        return _Place(0, have, sure=False)
    if length != str(file.size):
        raise _other(answer, length, file)
    return _Place(0, 0, sure=True)


def _other(answer: httpx2.Response, size: str, file: RemoteFile) -> Failed:
    return Failed(causes.PORTAL, f"{size} bytes of {_kind(answer)} for {file.name}, which has {file.size}")


def _kind(answer: httpx2.Response) -> str:
    return answer.headers.get("Content-Type", "no type").lower()
