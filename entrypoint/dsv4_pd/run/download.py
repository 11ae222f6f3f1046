"""Fetches the model: pinned revision, space asked for first, resumed where it stopped, verified at the end.

huggingface_hub runs only here, and is imported only when a download is asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from dsv4_pd.errors import ApplianceError, Problem, SettingsError, TemporaryError
from dsv4_pd.plan.folders import free_below
from dsv4_pd.plan.model_files import find, hub_cache, inspect, offline

# What a server reads; a repository may hold other formats of the same weights beside it.
PATTERNS = ("*.json", "*.safetensors", "tokenizer*", "*.txt", "*.jinja", "*.py", "encoding/*")
_MARGIN = 2 << 30
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLOCK = 8 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a download will fetch."""

    commit: str
    files: tuple[tuple[str, int], ...]  # name and size
    missing_bytes: int


def look_up(api: Any, model: str, revision: str | None, cache: Path) -> Wanted:
    """Ask the Hub which files the revision has; count what the cache lacks.

    Raises:
        SettingsError: no such model or revision, or no right to it.
    """
    from huggingface_hub import errors

    try:
        info = api.model_info(model, revision=revision, files_metadata=True)
    except errors.RevisionNotFoundError as error:
        raise _wrong("DSV4_MODEL_REVISION", revision, "a branch, tag or commit of the model") from error
    except errors.GatedRepoError as error:
        raise _wrong("HF_TOKEN", None, f"a token with the right to read {model}") from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise _wrong("DSV4_MODEL", model, "a model on the Hub that your token may read, or a folder") from error
    files = tuple(
        (f.rfilename, f.size or 0) for f in info.siblings or () if any(fnmatch(f.rfilename, p) for p in PATTERNS)
    )
    folder = cache / ("models--" + model.replace("/", "--")) / "snapshots" / info.sha
    return Wanted(info.sha, files, sum(size for name, size in files if not _whole(folder / name, size)))


def _wrong(setting: str, value: str | None, expected: str) -> SettingsError:
    return SettingsError([Problem(setting, repr(value) if value else "nothing", expected, f"set {setting}")])


def _whole(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def require_space(wanted: Wanted, folder: Path, free_bytes: int | None) -> None:
    """Refuse a download that would fill the disk.

    Raises:
        TemporaryError: too little room.
    """
    if free_bytes is not None and free_bytes < wanted.missing_bytes + _MARGIN:
        raise TemporaryError(
            [
                Problem(
                    "HF_HOME",
                    f"{free_bytes / 1e9:.1f} GB free at {folder}",
                    f"{(wanted.missing_bytes + _MARGIN) / 1e9:.1f} GB for {len(wanted.files)} files",
                    "free space there, or point HF_HOME to a larger disk",
                )
            ]
        )


def fetch(model: str, revision: str | None, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """Download what is missing and verify it; returns the snapshot's folder.

    Raises:
        SettingsError: the model or revision does not exist, or downloads are switched off.
        TemporaryError: no room, or the Hub can't be reached.
    """
    import huggingface_hub

    if switch := offline(environ):
        if (folder := find(model, revision, environ)) is not None:
            return verify(folder)
        raise _wrong(switch, environ.get(switch), f"it unset: {model} is not in {hub_cache(environ)}")
    cache = hub_cache(environ)

    try:
        wanted = look_up(huggingface_hub.HfApi(), model, revision, cache)
        require_space(wanted, cache, free_below(cache))
        total = sum(size for _, size in wanted.files)
        say(f"{model} at {wanted.commit}: {wanted.missing_bytes / 1e9:.1f} GB of {total / 1e9:.1f} GB to fetch")
        # By the operator's own name for the revision: the cache then finds it by that name without the Hub.
        done = huggingface_hub.snapshot_download(
            model, revision=revision, cache_dir=cache, allow_patterns=list(PATTERNS)
        )
    except _network_errors() as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "check the network and proxies and run it again: it resumes where it stopped"
        raise TemporaryError([Problem("the Hub", words, "an answer", remedy)]) from error
    return verify(Path(done))


def _network_errors() -> tuple[type[BaseException], ...]:
    from huggingface_hub import errors

    # Its bases are the HTTP library's own error, whichever library this version uses, and OSError.
    return (*errors.HfHubHTTPError.__bases__, errors.LocalEntryNotFoundError)


def verify(folder: Path) -> Path:
    """Names and sizes against the index.

    Raises:
        ApplianceError: naming every file that is missing, empty, dangling or short.
    """
    found = inspect(folder)
    if found.problems:
        raise ApplianceError([Problem(str(folder), text, "a whole file", "run it again") for text in found.problems])
    return folder


def check_hashes(folder: Path, say: Callable[[str], None]) -> tuple[str, ...]:
    """Files whose content is not what their name in the cache says. Reads everything: minutes for 160 GB.

    The cache keeps large files under their SHA-256; a plain copy has no such names and can't be checked this way.
    """
    wrong = []
    for path in sorted(_hashed(folder)):
        wanted = path.resolve().name
        say(f"{path.name} ...")
        if _sha256(path) != wanted:
            wrong.append(f"{path.name} is damaged: its SHA-256 is not {wanted[:12]}...")
    return tuple(wrong)


def _hashed(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() and _SHA256.fullmatch(path.resolve().name))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
