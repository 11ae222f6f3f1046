"""What lies in a cache folder, by compiler and kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dsv4_pd.run.cache import digests
from dsv4_pd.run.cache.systems import NAMES, OURS, Entry, entries, label

ORIGINS = ("image", "here", "import", "new")  # new: no digest yet


@dataclass(slots=True)
class Row:
    """One kernel. seconds: the sum over those whose compilation was timed."""

    system: str
    kernel: str
    entries: int = 0
    bytes: int = 0
    seconds: float = 0.0
    origins: dict[str, int] = field(default_factory=dict)


def rows(cache: Path) -> list[Row]:
    """By compiler, then by what the kernels cost."""
    found: dict[tuple[str, str], Row] = {}
    for entry in entries(cache):
        known = digests.read(cache, entry.relative)
        key = entry.system.name, known.kernel if known else _label(entry)
        row = found.setdefault(key, Row(*key))
        origin = known.origin if known else "new"
        row.entries += 1
        row.bytes += _bytes(entry)
        row.seconds += known.seconds or 0.0 if known else 0.0
        row.origins[origin] = row.origins.get(origin, 0) + 1
    return sorted(found.values(), key=lambda row: (NAMES.index(row.system), -row.seconds, row.kernel))


def as_values(cache: Path, table: list[Row]) -> dict[str, Any]:
    """For `--json`."""
    return {"folder": str(cache), "kernels": [asdict(row) for row in table], "aside": aside(cache)}


def aside(cache: Path) -> list[str]:
    """What was moved aside, oldest first."""
    folder = cache / OURS / "aside"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _label(entry: Entry) -> str:
    try:
        return label(entry)
    except OSError:
        return "?"


def _bytes(entry: Entry) -> int:
    return sum(size for path in _files(entry.path) if (size := _size(path)))


def _files(path: Path) -> Iterator[Path]:
    try:
        yield from path.rglob("*") if path.is_dir() else [path]
    except OSError:
        return


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size if not path.is_dir() else 0
    except OSError:
        return 0
