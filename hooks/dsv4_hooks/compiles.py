"""What this process compiles and what it finds compiled, by name: a line each, which the guard reads.

Every compiler of the engine is watched once the engine has imported it; none is imported for it. The file is
`compiles.PID.jsonl` beside the plugins' records; its reader,
dsv4_pd.run.guard.watch.compile_log, is another distribution.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dsv4_hooks.record import FOLDER_VARIABLE, folder_of
from dsv4_hooks.when_imported import when_imported

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Log:
    """Appends lines. A folder that can't be written costs the count, not the request in whose call the hook stands."""

    folder: Path | None
    _handle: int | None = None

    def found(self, system: str, kernel: str, seconds: float) -> None:
        """It lay in a cache."""
        self._write({"system": system, "kernel": kernel, "seconds": round(seconds, 3), "cached": True})

    def compiled(self, system: str, kernel: str, seconds: float) -> None:
        """It was compiled just now."""
        self._write({"system": system, "kernel": kernel, "seconds": round(seconds, 3), "cached": False})

    def unwatched(self, system: str, reason: str) -> None:
        """Another version of the engine: what this compiler does is not counted, and said so."""
        logger.warning("compiles: %s is not watched: %s", system, reason)
        self._write({"system": system, "kernel": "", "seconds": 0.0, "cached": True, "unwatched": reason})

    def _write(self, line: Mapping[str, object]) -> None:
        """One write appends a whole line, whichever thread it comes from."""
        if self.folder is None:
            return
        try:
            if self._handle is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                path = self.folder / f"compiles.{os.getpid()}.jsonl"
                self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            text = json.dumps({"time": round(time.time(), 3), "pid": os.getpid(), **line})
            os.write(self._handle, text.encode() + b"\n")
        except OSError as error:
            logger.warning("compiles: no line in %s: %s", self.folder, error)


def start(environ: Mapping[str, str] = os.environ) -> Log:
    """Watch every compiler in this process."""
    log = Log(folder_of(environ.get(FOLDER_VARIABLE)))
    if log.folder is not None:
        for system, (module, watch) in WATCHED.items():
            when_imported(module, functools.partial(_watch, log, system, watch))
    return log


def _watch(log: Log, system: str, watch: Callable[[Log, Any], None], module: ModuleType) -> None:
    try:
        watch(log, module)
    except Exception as error:
        log.unwatched(system, f"{type(error).__name__}: {error}")


def _timed(original: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    """`note(seconds, result, *arguments)` once the original has returned."""

    @functools.wraps(original)
    def timed(*args: Any, **kwargs: Any) -> Any:
        begun = time.monotonic()
        result = original(*args, **kwargs)
        note(time.monotonic() - begun, result, *args, **kwargs)
        return result

    return timed


def triton(log: Log, knobs: Any) -> None:
    """Its own listener, and whichever was there before."""
    before = knobs.compilation.listener

    def listener(*, metadata: Mapping[str, Any], times: Any, cache_hit: bool, **more: Any) -> None:
        if before is not None:
            before(metadata=metadata, times=times, cache_hit=cache_hit, **more)
        (log.found if cache_hit else log.compiled)("triton", str(metadata.get("name", "?")), times.total / 1e6)

    knobs.compilation.listener = listener


def tilelang(log: Log, module: Any) -> None:
    """A kernel object is made for a compilation, and for an entry of the cache with `from_database`."""

    def note(seconds: float, _: object, kernel: Any, func: Any = None, *__: object, **more: Any) -> None:
        program = func if func is not None else more.get("func")
        name = str((getattr(program, "attrs", None) or {}).get("global_symbol", "?"))
        (log.found if more.get("from_database") else log.compiled)("tilelang", name, seconds)

    module.JITKernel.__init__ = _timed(module.JITKernel.__init__, note)


def tvm_ffi(log: Log, loader: Any) -> None:
    """SGLang's own modules: built by ninja, then loaded from a staging folder or, later, from the cache."""

    def built(seconds: float, _: object, *, spec: Any, **__: object) -> None:
        log.compiled("tvm-ffi", spec.module_name.removeprefix("sgl_kernel_jit_"), seconds)

    def loaded(seconds: float, _: object, library: Path) -> None:
        if library.parent.name.startswith("deps-"):
            log.found("tvm-ffi", library.stem.removeprefix("sgl_kernel_jit_"), seconds)

    loader.ninja.build = _timed(loader.ninja.build, built)
    loader._load = _timed(loader._load, loaded)


def flashinfer(log: Log, core: Any) -> None:
    """Packaged modules are loaded as they are; of the others ninja decides whether to build."""
    build, load = core.JitSpecNvcc.build, core.JitSpecNvcc.try_load

    @functools.wraps(build)
    def building(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, begun = _stamp(self.jit_library_path), time.monotonic()
        result = build(self, *args, **kwargs)
        fresh = _stamp(self.jit_library_path) != before
        (log.compiled if fresh else log.found)("flashinfer", self.name, time.monotonic() - begun)
        return result

    def loaded(seconds: float, module: object, spec: Any) -> None:
        if module is not None:
            log.found("flashinfer", spec.name, seconds)

    core.JitSpecNvcc.build, core.JitSpecNvcc.try_load = building, _timed(load, loaded)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def inductor(log: Log, module: Any) -> None:
    """A graph that its cache does not have; its Triton kernels are compiled in workers that nobody watches."""

    def note(seconds: float, _: object, *__: object, **more: Any) -> None:
        log.compiled("inductor", f"graph {more.get('graph_id', '?')}", seconds)

    module.fx_codegen_and_compile = _timed(module.fx_codegen_and_compile, note)


# system -> the module after whose import it can be watched, and how
WATCHED: dict[str, tuple[str, Callable[[Log, Any], None]]] = {
    "triton": ("triton.knobs", triton),
    "tilelang": ("tilelang.jit.kernel", tilelang),
    "tvm-ffi": ("sglang.kernels.jit.utils.compile.loader", tvm_ffi),
    "flashinfer": ("flashinfer.jit.core", flashinfer),
    "inductor": ("torch._inductor.compile_fx", inductor),
}
