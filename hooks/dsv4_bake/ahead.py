"""Build the engine's own modules that a cache lacks, several at once, while a server still reads its weights.

The engine builds each when it first calls it, one after the other: two dozen at 7 to 10 s each in a cold start. This
runs beside it in a process of its own, which asks no card for anything (a context on a card costs half a gigabyte). A
module that the engine wants meanwhile waits for SGLang's lock on it and is then found built.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

CAPABILITY = (12, 0)  # of the cards that compiled.toml is about
SPARE_CORES = 2  # for the servers that start at the same time
LOCK = ".ahead"  # no name that a compiler or the cache's check takes for a lock of its own
VARIABLE = "SGLANG_JIT_CACHE_DIR"


def start(environ: Mapping[str, str] = os.environ) -> subprocess.Popen[bytes] | None:
    """Called in each scheduler; one of them, on all the servers of a cache folder, starts it. None for the others.

    A failure here costs the head start: the engine builds what it needs as usual.
    """
    if not environ.get(VARIABLE) or capability() != CAPABILITY:
        return None
    with contextlib.suppress(OSError):
        process = run(Path(environ[VARIABLE]), [sys.executable, "-m", "dsv4_bake.tvm_ffi"])
        if process is not None:
            threading.Thread(target=process.wait, name="compile ahead", daemon=True).start()  # or it stays a zombie
        return process
    return None


def run(folder: Path, command: list[str]) -> subprocess.Popen[bytes] | None:
    """The process holds the lock for its life; None while another one does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        words = ["nice", "-n", "5", *command, str(folder), "--workers", str(workers(len(os.sched_getaffinity(0))))]
        return subprocess.Popen(words, pass_fds=[lock], stdin=subprocess.DEVNULL)
    except BlockingIOError:
        return None
    finally:
        os.close(lock)


def workers(cores: int) -> int:
    """
    >>> workers(2), workers(64)
    (1, 62)
    """
    return max(1, cores - SPARE_CORES)


def capability() -> tuple[int, int] | None:
    """Of the first card, from NVML, which makes no context; None where there is none."""
    try:
        import pynvml

        pynvml.nvmlInit()
        found = pynvml.nvmlDeviceGetCudaComputeCapability(pynvml.nvmlDeviceGetHandleByIndex(0))
        pynvml.nvmlShutdown()
    except Exception:  # no library, no driver, no card: NVML raises its own kinds
        return None
    return int(found[0]), int(found[1])
