"""What of a cached model has been compared with its hashes: size and time of each file then, so that no start reads
160 GB again.

One JSON file for each model, beside its blobs, so that every container on the volume knows; in the state folder where
the volume is read-only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NAME = ".dsv4-pd/checked.json"
_VERSION = 1
Facts = tuple[int, int]  # size, mtime in ns


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """Files by their path below the model's cache folder, and the commits that are whole."""

    files: Mapping[str, Facts] = field(default_factory=dict)
    whole: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # commit -> names of its files

    def knows(self, base: Path, path: Path) -> bool:
        """Whether a file is the one that was checked."""
        name, facts = key_of(base, path), facts_of(path)
        return name is not None and facts is not None and self.files.get(name) == facts

    def holds(self, snapshot: Path) -> bool:
        """Whether a snapshot is whole and every file in it the one that was checked."""
        base, names = snapshot.parent.parent, self.whole.get(snapshot.name)
        return bool(names) and all(self.knows(base, snapshot / name) for name in names or ())


def facts_of(path: Path) -> Facts | None:
    """Size and time of what a path leads to; None where nothing is."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def key_of(base: Path, path: Path) -> str | None:
    """The file that a path leads to, below the model's folder; None when it leads out of it."""
    try:
        return str(path.resolve().relative_to(base.resolve()))
    except (OSError, ValueError):
        return None


def places(base: Path, state: Path) -> tuple[Path, Path]:
    """Where a record may lie, the volume first."""
    return base / _NAME, state / "models" / f"{base.name}.json"


def read(base: Path, state: Path) -> CheckedFiles:
    """All that is recorded; what can't be read counts as not recorded."""
    files: dict[str, Facts] = {}
    whole: dict[str, tuple[str, ...]] = {}
    for path in reversed(places(base, state)):
        for known, names in _parse(path):
            files |= known
            whole |= names
    return CheckedFiles(files, whole)


def _parse(path: Path) -> Iterator[tuple[dict[str, Facts], dict[str, tuple[str, ...]]]]:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] == _VERSION:
            files = {str(name): (int(size), int(time)) for name, (size, time) in data["files"].items()}
            yield files, {str(commit): tuple(map(str, names)) for commit, names in data["whole"].items()}


def write(base: Path, state: Path, record: CheckedFiles) -> None:
    """Replace the record, on the volume or, where that can't be written, in the state folder.

    Raises:
        OSError: neither can be written.
    """
    text = json.dumps({"version": _VERSION, "files": dict(record.files), "whole": dict(record.whole)})
    volume, own = places(base, state)
    try:
        _replace(volume, text)
    except OSError:
        _replace(own, text)


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.new")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
