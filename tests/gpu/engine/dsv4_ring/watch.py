"""Each first use of a kernel in this process, as a JSON line: without caches each of them is a compilation.

`RING_LOADS` names the file. A line: time (seconds since the epoch), pid, system, kernel, specialisation, seconds that
the call took, and whether a cache had it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Those that a launch chooses; the compiler derives the others.
OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "launch_pdl", "launch_cooperative_grid", "debug")
_LONGEST = 12000  # characters of a specialisation


def start(file: str) -> list[str]:
    """Hook each compiler that is installed; returns the names of those that could be hooked."""
    write = functools.partial(note, Path(file))
    hooked = []
    for name, hook in {"triton": triton, "tilelang": tilelang, "tvm-ffi": tvm_ffi, "flashinfer": flashinfer}.items():
        try:
            hook(write)
        except (ImportError, AttributeError) as error:  # another version: said by its absence from the record
            write(name, "hook", f"{type(error).__name__}: {error}", 0.0, cached=True)
        else:
            hooked.append(name)
    return hooked


def note(file: Path, system: str, kernel: str, specialisation: str, seconds: float, *, cached: bool) -> None:
    line = {
        "time": round(time.time(), 3),
        "pid": os.getpid(),
        "system": system,
        "kernel": kernel,
        "specialisation": specialisation[:_LONGEST],
        "seconds": round(seconds, 3),
        "cached": cached,
    }
    with file.open("a") as out:  # appended in one write: lines of several processes do not mix
        out.write(json.dumps(line) + "\n")


Write = Callable[..., None]


def triton(write: Write) -> None:
    from triton import knobs

    def listener(*, src: Any, metadata: dict[str, Any], metadata_group: Any, times: Any, cache_hit: bool) -> None:
        constants = {".".join(map(str, key)): repr(value) for key, value in getattr(src, "constants", {}).items()}
        options = {"warps": metadata.get("num_warps"), "stages": metadata.get("num_stages")}
        function = getattr(src, "fn", None)
        origin = f"{getattr(function, '__module__', '?')}:{getattr(function, '__name__', '?')}"
        text = json.dumps(
            {
                "signature": getattr(src, "signature", {}), "constants": constants, **options,
                # What dsv4_bake.replay compiles it again from, for another card.
                "function": origin, "replay": replay_of(src, metadata),
            },
            default=str,
        )  # fmt: skip
        write("triton", metadata.get("name", "?"), text, times.total / 1e6, cached=cache_hit)

    knobs.compilation.listener = listener


def replay_of(src: Any, metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Everything that the cache's key holds beside source, compiler and card; None where JSON can't say it."""
    values = getattr(src, "constants", {})
    if not all(isinstance(value, (int, float, str, bool, type(None))) for value in values.values()):
        return None
    attrs = {".".join(map(str, key)): value for key, value in getattr(src, "attrs", {}).items()}
    options = {name: metadata.get(name) for name in OPTIONS}
    return {"constants": {".".join(map(str, key)): value for key, value in values.items()}, "attrs": attrs} | {
        "options": {name: value for name, value in options.items() if value is not None}
    }


def tilelang(write: Write) -> None:
    from tilelang.cache.kernel_cache import KernelCache

    own = KernelCache.cached

    def cached(self: Any, func: Any = None, *args: Any, **more: Any) -> Any:
        begun = time.monotonic()
        known = len(getattr(self, "_memory_cache", ()))
        kernel = own(self, func, *args, **more)
        attributes = getattr(func, "attrs", None) or {}
        name = str(attributes["global_symbol"]) if "global_symbol" in attributes else "?"
        if len(getattr(self, "_memory_cache", ())) != known or not known:
            seconds = time.monotonic() - begun
            # The program's text: buffers, sizes and constants in one.
            digest = hashlib.sha256(str(func).encode()).hexdigest()[:16]
            write("tilelang", name, digest, seconds, cached=seconds < 2.0)
        return kernel

    KernelCache.cached = cached


def tvm_ffi(write: Write) -> None:
    from sglang.kernels.jit.utils.compile import loader

    own = loader._load
    begun = time.time()

    def load(library: Path) -> Any:
        fresh = Path(library).stat().st_mtime > begun
        started = time.monotonic()
        module = own(library)
        write("tvm-ffi", module_name(Path(library)), "/".join(Path(library).parts[-4:]), time.monotonic() - started,
              cached=not fresh)  # fmt: skip
        return module

    loader._load = load


def module_name(library: Path) -> str:
    """SGLang keeps a build at CACHE/ARCH/MODULE/KEY.../FILE."""
    parts = library.parts
    return next((parts[i + 1] for i, part in enumerate(parts[:-1]) if part.startswith("sm")), library.stem)


def flashinfer(write: Write) -> None:
    from flashinfer.jit.core import JitSpec

    own = JitSpec.build_and_load

    def build_and_load(self: Any) -> Any:
        begun = time.monotonic()
        module = own(self)
        seconds = time.monotonic() - begun
        write("flashinfer", self.name, "", seconds, cached=seconds < 2.0)
        return module

    JitSpec.build_and_load = build_and_load
