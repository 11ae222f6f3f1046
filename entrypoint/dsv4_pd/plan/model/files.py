"""What lies in the model's folder: found by name or in the Hugging Face cache, and checked against its index.

Reads names, sizes and the first eight bytes of each shard; never a tensor, so that it costs nothing at start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.plan.disk import json_file
from dsv4_pd.plan.model import config as model_config
from dsv4_pd.plan.model.shards import INDEX, data_bytes, file_problem, listed, problem_of

_ALSO_NEEDED = ("config.json",)
_LOADED = frozenset({".json", ".safetensors", ".model", ".tiktoken", ".jinja", ".py"})  # what an engine reads
# tokenizer_config.json is none: it says how to use one.
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "*.tiktoken", "tiktoken.model", "spiece.model", "vocab.json",
               "vocab.txt")  # fmt: skip
_OBJECTS = frozenset({"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"})


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
    base = repository(hub_cache(environ), model)
    name = revision or "main"
    try:
        commit = (base / "refs" / name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        commit = name
    snapshot = base / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def snapshot(model: str, revision: str | None, environ: Mapping[str, str]) -> Path | None:
    """The folder that a model of the Hub has in the cache, there or not; None where no commit names it."""
    if is_folder(model) or not is_commit(revision):
        return None
    return repository(hub_cache(environ), model) / "snapshots" / str(revision)


def repository(cache: Path, model: str) -> Path:
    """A model's own folder in the Hub's cache, there or not.

    >>> repository(Path("/hub"), "owner/name").name
    'models--owner--name'
    """
    return cache / ("models--" + model.replace("/", "--"))


def is_commit(revision: str | None) -> bool:
    """Whether a revision names one state for good: a branch moves, a tag may.

    >>> is_commit("9e165c30e2704aec5d9d593cce3eebd58bbef1cb"), is_commit("9e165c3"), is_commit("main"), is_commit(None)
    (True, False, False, False)
    """
    return revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None


def is_folder(model: str) -> bool:
    """Whether DSV4_MODEL names a folder, and not a model on the Hub."""
    return model.startswith(("/", ".", "~")) or Path(model).is_dir()


def commit_of(folder: Path | None) -> str | None:
    """The commit of a snapshot in the cache; None for a folder of the operator's own."""
    return folder.name if folder is not None and folder.parent.name == "snapshots" else None


def read_config(model: Model) -> Mapping[str, Any] | None:
    """The model's config.json, odd values and all; None where it is not here, or can't be read (its folder's problems
    say so).
    """
    try:
        data = json_file.read(model.path / "config.json") if model.path else None
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


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
        return _expanded(environ["HF_HUB_CACHE"])
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/") / ".cache")
    return _expanded(environ.get("HF_HOME") or f"{cache}/huggingface") / "hub"


def _expanded(path: str) -> Path:
    """As huggingface_hub does it: a user whom nobody knows is a folder's name, where pathlib raises."""
    return Path(os.path.expanduser(path))  # noqa: PTH111


def inspect(folder: Path) -> Model:
    """Check a model's folder: every file that the index names is there, whole, and readable."""
    if not folder.is_dir():
        return Model(folder, (f"{folder} is not a folder",))
    problems = [f"{name} is missing" for name in _ALSO_NEEDED if not os.path.lexists(folder / name)]
    problems += [text for path in _opened(folder) if (text := _small_problem(path))]
    problems += model_config.problems(read_config(Model(folder)) or {})
    if not any(path.is_file() for pattern in _TOKENIZERS for path in folder.glob(pattern)):
        problems.append(f"no tokenizer ({_TOKENIZERS[0]} or {_TOKENIZERS[1]})")
    shards, total, index_problem = listed(folder)
    if index_problem:
        return Model(folder, (*problems, index_problem))
    wrong = {name: text for name in shards if (text := problem_of(folder / name))}
    problems += wrong.values()
    have = sum(data_bytes(folder / name) for name in shards if name not in wrong)
    if total is not None and not wrong and have != total:
        problems.append(f"{INDEX} says {total} bytes of tensors, the shards have {have}")
    if not wrong and not have:
        problems.append("no tensor in any shard")
    missing = None if total is None else max(total - have, 0)
    return Model(folder, tuple(problems), total if total is not None else have, missing)


def _opened(folder: Path) -> Iterator[Path]:
    """What an engine opens beside the shards: configuration, tokenizer, template, code."""
    yield from (p for p in sorted(folder.glob("*")) if p.suffix in _LOADED - {".safetensors"} and p.name != INDEX)


def _small_problem(path: Path) -> str | None:
    """A file that is not what its name says: dangling, empty, cut, or the note that git keeps in its place."""
    if problem := file_problem(path):
        return problem
    if path.suffix != ".json":
        return None
    try:
        data = json_file.read(path)
    except (OSError, ValueError) as error:
        return f"{path.name} is no JSON, or cut short ({type(error).__name__})"
    if path.name in _OBJECTS and not isinstance(data, dict):
        return f"{path.name} is no JSON object but {model_config.short(data)}"
    return None
