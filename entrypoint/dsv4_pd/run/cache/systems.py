"""Where each compiler of the engine keeps what it made, below the cache folder, and what one entry of it is.

The engine (0.5.23) puts every compiler's cache below `SGLANG_CACHE_DIR` and `SGLANG_JIT_CACHE_DIR`, which the plan
sets. An entry appears in its place whole, by a rename, except FlashInfer's, which ninja builds in place.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

OURS = ".dsv4"  # our own notes in a cache folder
_KERNEL = re.compile(rb"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+?)(?:_kernel)?\(")
_SOURCE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class System:
    """One compiler's cache. Patterns are of path parts; an entry is a folder or a file.

    needs: each of these patterns has a file in a finished folder. last: a build writes one of these last; the system
    makes a folder without them again by itself.
    """

    name: str
    patterns: tuple[str, ...]
    needs: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


SYSTEMS = (
    System("tvm-ffi", ("jit/*/*/build-*/deps-*",), ("*.so", "sgl_deps.json")),
    System("tilelang", ("tilelang/*/*/kernels/*",), ("*.so", "params.pkl")),
    System("tilelang", ("tilelang/*/cuda-binaries/*",)),
    System("triton", ("triton/*",), last=("__grp__*.json", "*.so")),
    System("flashinfer", (".cache/flashinfer/*/*/cached_ops/*",), last=("*.so",)),
    System("flashinfer-autotune", ("flashinfer/autotune/*/*/*/*.json",)),
    System("inductor", ("inductor/fxgraph/*/*/*", "inductor/aotautograd/*/*", "inductor/??/*")),
)
NAMES = tuple(dict.fromkeys(system.name for system in SYSTEMS))
LOCKS = ("lock", "*.lock", ".lock")
# Left from builds, and changed by later ones.
IGNORED = (*LOCKS, ".ninja_log", ".ninja_deps", "tmp.pid_*")
# Whole entries change these: Triton's index names absolute paths, so it is written again where an entry is copied to.
FORM_ALONE = ("__grp__*.json", "*.best_config")


@dataclass(frozen=True, slots=True)
class Entry:
    """One compiled thing. `relative`: of its path below the cache folder."""

    system: System
    cache: Path
    relative: str

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.cache / self.relative


def entries(cache: Path, systems: Sequence[System] = SYSTEMS) -> Iterator[Entry]:
    """Every entry below a cache folder; where the way to them is no readable folder, that is the entry."""
    for system in systems:
        for pattern in system.patterns:
            yield from (Entry(system, cache, found) for found in _walk(cache, "", pattern.split("/")))


def _walk(cache: Path, at: str, parts: list[str]) -> Iterator[str]:
    try:
        names = sorted(path.name for path in (cache / at).iterdir())
    except FileNotFoundError:
        return
    except OSError:
        if at:
            yield at
        return
    for name in names:
        if not _matches(name, parts[:1]) or (name.startswith(".") and not parts[0].startswith(".")):
            continue
        here = f"{at}/{name}" if at else name
        if len(parts) == 1:
            if not _matches(name, LOCKS):
                yield here
        elif _is(Path.is_dir, cache / here):
            yield from _walk(cache, here, parts[1:])
        elif not _is(Path.is_file, cache / here) or "*" not in parts[0]:
            yield here  # what stands where the system would make a folder


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    """False also where we may not look."""
    try:
        return kind(path)
    except OSError:
        return False


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def ignored(name: str) -> bool:
    """Whether a file of this name says nothing about its entry."""
    return _matches(name, IGNORED)


def may_change(name: str) -> bool:
    """Whether a file of this name is judged by its form alone."""
    return _matches(name, FORM_ALONE)


def belongs(system: System, relative: str) -> bool:
    """Whether a path is one that the system's entries have; never one that leads out of the cache folder."""
    parts = relative.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return False
    return any(
        len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))
        for wanted in (pattern.split("/") for pattern in system.patterns)
    )


def label(entry: Entry) -> str:
    """The kernel's name as its compiler's record has it; the path's last part where the entry does not say."""
    parts = entry.relative.split("/")
    if entry.system.name == "tvm-ffi" and len(parts) > 2:
        return parts[2].removeprefix("sgl_kernel_jit_")
    if entry.system.name == "triton":
        found = sorted(entry.path.glob("__grp__*.json"))
        return found[0].name[len("__grp__") : -len(".json")] if found else "helper"
    if entry.system.name == "tilelang":
        return _first_kernel(entry.path / "device_kernel.cu") or parts[-1][:12]
    return parts[-1]


def _first_kernel(source: Path) -> str:
    try:
        with source.open("rb") as file:
            found = _KERNEL.search(file.read(_SOURCE_BYTES))
    except OSError:
        return ""
    return found[1].decode().rstrip("_") if found else ""
