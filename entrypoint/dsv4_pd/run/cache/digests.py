"""What each entry's files were when it was baked or compiled: size and SHA-256, one small file an entry.

One file an entry, replaced in one step, so that two appliances on one volume need no lock. It lies beside the caches
(`.dsv4/digests/`) because their owners list, prune and rebuild their own folders.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from dsv4_pd.run.cache.systems import OURS

SCHEMA = 1
Origin = Literal["image", "here", "import"]


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was written. size: in bytes."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Digest:
    """An entry as it was written. seconds: that compiling it took, where that is known."""

    relative: str
    system: str
    kernel: str
    origin: Origin
    files: dict[str, File] = field(default_factory=dict)
    seconds: float | None = None
    schema: int = SCHEMA


def file_of(data: bytes) -> File:
    """The digest of one file's bytes."""
    return File(len(data), hashlib.sha256(data).hexdigest())


def place(cache: Path, relative: str) -> Path:
    """Where the digest of an entry lies."""
    return cache / OURS / "digests" / f"{hashlib.sha256(relative.encode()).hexdigest()[:32]}.json"


def write(cache: Path, digest: Digest) -> None:
    """Whole or not at all.

    Raises:
        OSError: it can't be written.
    """
    target = place(cache, digest.relative)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.part")
    try:
        draft.write_text(json.dumps(asdict(digest)), encoding="utf-8")
        draft.replace(target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def read(cache: Path, relative: str) -> Digest | None:
    """The digest of an entry; None where there is none, or it is itself damaged: the entry is then judged by its
    form and gets a new one.
    """
    try:
        return from_values(json.loads(place(cache, relative).read_bytes()), relative)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def from_values(values: dict[str, Any], relative: str) -> Digest | None:
    """A digest from its file's JSON; None when it is of another form, or of another entry."""
    if values["schema"] != SCHEMA or values["relative"] != relative:
        return None
    files = {str(name): File(int(item["size"]), str(item["sha256"])) for name, item in values["files"].items()}
    return Digest(**{**values, "files": files})


def forget(cache: Path, relative: str) -> None:
    """The entry is no more where it was."""
    with contextlib.suppress(OSError):
        place(cache, relative).unlink()
