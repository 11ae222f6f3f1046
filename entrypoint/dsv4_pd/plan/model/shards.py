"""The files of a model's tensors: which an index names, and whether each is what its own header says.

Reads names, sizes and headers; never a tensor.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsv4_pd.plan.disk import json_file
from dsv4_pd.plan.model.config import short

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_POINTER = b"version https://git-lfs.github.com/spec/"  # what a clone without Git LFS holds
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_LONGEST_NAME, _MOST_BYTES = 200, 1 << 50


def listed(folder: Path) -> tuple[list[str], int | None, str | None]:
    """Shard names and the tensors' total size, from the index; one file without an index is a model too."""
    index = folder / INDEX
    if not index.exists() and not index.is_symlink():
        if (folder / SINGLE).exists() or (folder / SINGLE).is_symlink():
            return [SINGLE], None, None
        return [], None, f"neither {INDEX} nor {SINGLE}"
    if problem := file_problem(index):
        return [], None, problem
    try:
        return _indexed(json_file.read(index))
    except (OSError, ValueError) as error:
        return [], None, f"{INDEX} can't be read ({type(error).__name__})"


def _indexed(data: Any) -> tuple[list[str], int | None, str | None]:
    """What an index says; of another kind than an index is, the reason comes last."""
    weights = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(weights, dict):
        return [], None, f"{INDEX} can't be read (no weight_map in it)"
    if odd := [name for name in weights.values() if not _is_shard(name)]:
        return [], None, f"{INDEX} can't be read (weight_map names {short(odd[0])}, which is no shard)"
    if not weights:
        return [], None, f"{INDEX} names no shard"
    about = data.get("metadata")
    total = about.get("total_size") if isinstance(about, dict) else None
    if total is not None and not (isinstance(total, int | float) and 0 <= total < _MOST_BYTES):
        return [], None, f"{INDEX} can't be read (total_size is {short(total)})"
    return sorted(set(weights.values())), int(total) if total else None, None


def _is_shard(name: Any) -> bool:
    """A file's name below the model's folder."""
    return isinstance(name, str) and name.endswith(".safetensors") and name.isprintable() and _below(name)


def _below(name: str) -> bool:
    return len(name.encode()) <= _LONGEST_NAME and not name.startswith("/") and ".." not in name.split("/")


def total_of(sizes: Mapping[str, int], index: Any) -> int:
    """Bytes of the weights among a repository's files (name -> size); `index`: what its index says, or None.

    >>> total_of({"a.safetensors": 5, "original/b.safetensors": 7, "x.json": 1}, None)
    5
    """
    named, _, problem = _indexed(index)
    at_the_top = [name for name in sizes if name.endswith(".safetensors") and "/" not in name]
    return sum(sizes.get(name, 0) for name in (at_the_top if problem else named))


def file_problem(path: Path) -> str | None:
    """A file that is missing, dangling, empty, none at all, or the note that git keeps in its place."""
    if path.is_symlink() and not path.exists():
        return f"{path.name} is a link to {path.readlink()}, which is not there"
    if not path.exists():
        return f"{path.name} is missing"
    if not path.is_file():  # a pipe would never end
        return f"{path.name} is no file"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(len(_POINTER))
    except OSError as error:
        return f"{path.name} can't be read ({error.strerror})"
    if head == _POINTER:
        return f"{path.name} is git's note about the file, not the file (run `git lfs pull` there)"
    return None if size or path.suffix == ".py" else f"{path.name} is empty"


def problem_of(path: Path) -> str | None:
    """A shard that is missing, or shorter or longer than its own header says."""
    if problem := file_problem(path):
        return problem
    size = path.stat().st_size
    header = _header_bytes(path)
    if size < 8 or not 0 < header <= min(size - 8, _LONGEST_HEADER):
        return f"{path.name} is no safetensors file, or cut short ({size} bytes)"
    expected = 8 + header + _tensor_bytes(path, header)
    return None if size == expected else f"{path.name} has {size} bytes, its header says {expected}"


def _header_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(8), "little")


def data_bytes(path: Path) -> int:
    """Bytes of a whole shard's tensors."""
    return path.stat().st_size - 8 - _header_bytes(path)


def read_header(path: Path) -> dict[str, Any]:
    """A shard's own table: tensor name → dtype, shape and offsets."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header


def _tensor_bytes(path: Path, header: int) -> int:
    """Where the last tensor ends."""
    try:
        return max((operator.index(entry["data_offsets"][1]) for entry in read_header(path).values()), default=0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return -8 - header  # never equal to a size: named as damaged
