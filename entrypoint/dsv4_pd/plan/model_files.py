"""What lies in the model's folder: found by name or in the Hugging Face cache, and checked against its index.

Reads names, sizes and the first eight bytes of each shard; never a tensor, so that it costs nothing at start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.plan.memory_model import Shape, shape_of

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_ALSO_NEEDED = ("config.json",)
_LOADED = frozenset({".json", ".safetensors", ".model", ".tiktoken", ".jinja", ".py"})  # what an engine reads
_POINTER = b"version https://git-lfs.github.com/spec/"  # what a clone without Git LFS holds
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Model:
    """What lies in the model's folder, or `path` None when it is not on this machine."""

    path: Path | None
    problems: tuple[str, ...] = ()  # missing, empty, dangling or short files
    total_bytes: int | None = None
    missing_bytes: int | None = None


def look(model: str, revision: str | None, environ: Mapping[str, str]) -> Model:
    """Find a model and check its files."""
    folder = find(model, revision, environ)
    return Model(None) if folder is None else inspect(folder)


def find(model: str, revision: str | None, environ: Mapping[str, str]) -> Path | None:
    """The folder of a local model, or of its snapshot in the Hugging Face cache."""
    if is_folder(model):
        return Path(model).expanduser()
    base = hub_cache(environ) / ("models--" + model.replace("/", "--"))
    name = revision or "main"
    try:
        commit = (base / "refs" / name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        commit = name
    snapshot = base / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def is_folder(model: str) -> bool:
    """Whether DSV4_MODEL names a folder, and not a model on the Hub."""
    return model.startswith(("/", ".", "~")) or Path(model).is_dir()


def commit_of(folder: Path | None) -> str | None:
    """The commit of a snapshot in the cache; None for a folder of the operator's own."""
    return folder.name if folder is not None and folder.parent.name == "snapshots" else None


def read_config(model: Model) -> Mapping[str, Any] | None:
    """The model's config.json; None where it is not here, or can't be read (its folder's problems say so)."""
    try:
        data = json.loads((model.path / "config.json").read_text(encoding="utf-8")) if model.path else None
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def read_shape(model: Model, known: Mapping[str, Any] | None = None) -> Shape | None:
    """The shape of a model, from its config.json or, before it is here, from what is `known` of it.

    None: another kind of model, or one of which nothing is known yet.
    """
    config = read_config(model) or known
    return shape_of(config, model.total_bytes) if config else None


def offline(environ: Mapping[str, str]) -> str | None:
    """The switch that forbids a download, if one is set."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return next((name for name in names if environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")), None)


def stamp(folder: Path | None) -> str:
    """Changes when a file that an engine loads changes in name, size or time; "" where none is found."""
    found = []
    for path in sorted(folder.glob("*")) if folder else ():
        if path.suffix in _LOADED:
            with contextlib.suppress(OSError):
                facts = path.stat()
                found.append((str(path), facts.st_size, facts.st_mtime_ns))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16] if found else ""


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps its downloads, by its own variables."""
    if environ.get("HF_HUB_CACHE"):
        return Path(environ["HF_HUB_CACHE"]).expanduser()
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/") / ".cache")
    return Path(environ.get("HF_HOME") or Path(cache) / "huggingface").expanduser() / "hub"


def inspect(folder: Path) -> Model:
    """Check a model's folder: every file that the index names is there, whole, and readable."""
    if not folder.is_dir():
        return Model(folder, (f"{folder} is not a folder",))
    problems = [f"{name} is missing" for name in _ALSO_NEEDED if not os.path.lexists(folder / name)]
    problems += [text for path in _opened(folder) if (text := _small_problem(path))]
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        problems.append(f"no tokenizer ({' or '.join(_TOKENIZERS)})")
    shards, total, index_problem = _shards(folder)
    if index_problem:
        return Model(folder, (*problems, index_problem))
    wrong = {name: text for name in shards if (text := _shard_problem(folder / name))}
    problems += wrong.values()
    have = sum(_data_bytes(folder / name) for name in shards if name not in wrong)
    if total is not None and not wrong and have != total:
        problems.append(f"{INDEX} says {total} bytes of tensors, the shards have {have}")
    missing = None if total is None else max(total - have, 0)
    return Model(folder, tuple(problems), total if total is not None else have, missing)


def _shards(folder: Path) -> tuple[list[str], int | None, str | None]:
    """Shard names and the tensors' total size, from the index; one file without an index is a model too."""
    index = folder / INDEX
    if not index.exists() and not index.is_symlink():
        if (folder / SINGLE).exists() or (folder / SINGLE).is_symlink():
            return [SINGLE], None, None
        return [], None, f"neither {INDEX} nor {SINGLE}"
    try:
        data = json.loads(index.read_text(encoding="utf-8"))
        names = sorted(set(data["weight_map"].values()))
        total = data.get("metadata", {}).get("total_size")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        return [], None, f"{INDEX} can't be read ({type(error).__name__})"
    return names, int(total) if total else None, None


def _opened(folder: Path) -> Iterator[Path]:
    """What an engine opens beside the shards: configuration, tokenizer, template, code."""
    yield from (p for p in sorted(folder.glob("*")) if p.suffix in _LOADED - {".safetensors"} and p.name != INDEX)


def _small_problem(path: Path) -> str | None:
    """A file that is not what its name says: dangling, empty, cut, or the note that git keeps in its place."""
    if problem := _file_problem(path):
        return problem
    if path.suffix != ".json":
        return None
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return f"{path.name} is no JSON, or cut short ({type(error).__name__})"
    return None


def _file_problem(path: Path) -> str | None:
    if path.is_symlink() and not path.exists():
        return f"{path.name} is a link to {path.readlink()}, which is not there"
    if not path.exists():
        return f"{path.name} is missing"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(len(_POINTER))
    except OSError as error:
        return f"{path.name} can't be read ({error.strerror})"
    if head == _POINTER:
        return f"{path.name} is git's note about the file, not the file (run `git lfs pull` there)"
    return None if size else f"{path.name} is empty"


def _shard_problem(path: Path) -> str | None:
    """A shard that is missing, or shorter or longer than its own header says."""
    if problem := _file_problem(path):
        return problem
    size = path.stat().st_size
    header = _header_bytes(path)
    if size < 8 or header <= 0 or header + 8 > size:
        return f"{path.name} is no safetensors file, or cut short ({size} bytes)"
    expected = 8 + header + _tensor_bytes(path, header)
    return None if size == expected else f"{path.name} has {size} bytes, its header says {expected}"


def _header_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(8), "little")


def _data_bytes(path: Path) -> int:
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
        return max((entry["data_offsets"][1] for entry in read_header(path).values()), default=0)
    except (ValueError, KeyError, TypeError, IndexError):
        return -8 - header  # never equal to a size: named as damaged
