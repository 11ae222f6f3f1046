"""Carry a filled cache to hosts with the same cards and the same image: one file, every byte named by digest.

The file holds code that the engine loads: it is to be trusted as the image is.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from dsv4_pd.errors import ApplianceError
from dsv4_pd.run.cache import digests
from dsv4_pd.run.cache.digests import Digest, file_of
from dsv4_pd.run.cache.judge import ALONE, EntryState, judge
from dsv4_pd.run.cache.seed import place
from dsv4_pd.run.cache.systems import OURS, SYSTEMS, Entry, belongs, entries

SCHEMA = 1
HEAD = "dsv4-cache.json"
_LARGEST = 2 << 30  # bytes of one file


def export(cache: Path, target: Path, image: str) -> int:
    """Write every whole entry; returns how many. The file appears whole or not at all.

    Raises:
        ApplianceError: there is nothing to write.
        OSError: it can't be written.
    """
    found = [(entry, known) for entry in entries(cache) if (known := _sound(entry))]
    if not found:
        raise ApplianceError(f"{cache}: no whole compiled kernel in it; start the appliance once, then export")
    head = {"schema": SCHEMA, "image": image, "entries": [asdict(known) for _, known in found]}
    draft = target.with_name(f"{target.name}.part")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=3) as archive:
            _add(archive, HEAD, json.dumps(head).encode())
            for entry, known in found:
                for name in (*known.files, *_indices(entry)):
                    path = entry.path if name == ALONE else entry.path / name
                    _add(archive, member(entry.relative, name), path.read_bytes())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return len(found)


def _sound(entry: Entry) -> Digest | None:
    """The digest of an entry that still is what it says."""
    known = digests.read(entry.cache, entry.relative)
    good = known is not None and judge(entry, known, time.time(), alone=True).outcome is EntryState.WHOLE
    return known if good else None


def _indices(entry: Entry) -> list[str]:
    return sorted(path.name for path in entry.path.glob("__grp__*.json")) if entry.path.is_dir() else []


def member(relative: str, name: str) -> str:
    """The name in the archive of one file of an entry."""
    return relative if name == ALONE else f"{relative}/{name}"


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    item = tarfile.TarInfo(name)
    item.size, item.mode = len(data), 0o600
    archive.addfile(item, io.BytesIO(data))


def load(source: BinaryIO, cache: Path, image: str) -> tuple[int, int]:
    """Add what the cache lacks; returns (added, already there). Nothing is added unless every byte is right.

    Raises:
        ApplianceError: it is no such file, of another image, or damaged.
        OSError: the cache can't be written.
    """
    (cache / OURS).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache / OURS, prefix="import-") as folder:
        unpacked = Path(folder) / "cache"
        try:
            with tarfile.open(fileobj=source, mode="r:gz") as archive:
                wanted = _unpack(archive, unpacked, image)
        except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
            raise ApplianceError(f"no cache that `dsv4-pd cache export` wrote, or cut off: {error}") from error
        added = 0
        for number, entry in enumerate(wanted):
            if not (cache / entry.relative).exists():
                added += place(entry, Path(folder) / str(number), cache, "import")
        return added, len(wanted) - added


def _unpack(archive: tarfile.TarFile, folder: Path, image: str) -> list[Entry]:
    first = archive.next()
    head = json.loads(_bytes(archive, first)) if first and first.name == HEAD else {}
    if head.get("schema") != SCHEMA:
        raise ValueError(f"schema {head.get('schema')!r}, expected {SCHEMA}")
    if head["image"] != image:
        raise ApplianceError(
            f"cache file: found image {head['image']!r}, expected {image!r}; export it from an appliance of this image"
        )
    known = [_digest(values) for values in head["entries"]]
    wanted = {member(digest.relative, name): file for digest in known for name, file in digest.files.items()}
    for item in iter(archive.next, None):
        data = _bytes(archive, item)
        index = PurePosixPath(item.name)
        if item.name in wanted:
            if file_of(data) != wanted.pop(item.name):
                raise ValueError(f"{item.name}: not the bytes that were exported")
        elif not (index.name.startswith("__grp__") and any(str(index.parent) == one.relative for one in known)):
            raise ValueError(f"{item.name}: in no entry")
        _write(folder / item.name, data)
    if wanted:
        raise ValueError(f"{min(wanted)} is missing")
    return list(_entries(folder, known))


def _entries(folder: Path, known: Iterable[Digest]) -> Iterable[Entry]:
    for digest in known:
        system = next(one for one in SYSTEMS if belongs(one, digest.relative))
        digests.write(folder, digest)
        yield Entry(system, folder, digest.relative)


def _digest(values: dict[str, Any]) -> Digest:
    """Its names lead nowhere but into its own entry."""
    digest = digests.from_values(values, str(values["relative"]))
    if digest is None or not any(belongs(system, digest.relative) for system in SYSTEMS):
        raise ValueError(f"{values['relative']!r} is no entry of a compiler's cache")
    for name in digest.files:
        if name != ALONE and (name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/"))):
            raise ValueError(f"{name!r} is no file of an entry")
    return digest


def _bytes(archive: tarfile.TarFile, item: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(item) if item.isreg() and item.size <= _LARGEST else None
    if file is None:
        raise ValueError(f"{item.name}: no file")
    return file.read()


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o700 if path.suffix == ".so" else 0o600)
