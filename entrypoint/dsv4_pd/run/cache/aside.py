"""Move what can't be used out of the compilers' sight, and keep the last of it for whoever wants to look."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from dsv4_pd.run.cache.systems import OURS

KEPT = 20


def put(cache: Path, relative: str) -> Path:
    """Where it is now.

    Raises:
        OSError: it can be moved neither away nor beside itself.
    """
    path = cache / relative
    folder = cache / OURS / "aside"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{time.time_ns()}-{relative.replace('/', '-')[-120:]}"
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)  # a folder that can't be written can't be moved to another one
    try:
        path.rename(folder / name)
        return folder / name
    except PermissionError:  # another user's folder: within its parent it needs no right of its own
        beside = path.with_name(f".aside-{os.getpid()}-{path.name}"[:200])
        path.rename(beside)
        return beside


def prune(cache: Path) -> None:
    """Keep the newest ones: a disk that damages each start's kernels must not fill itself with them."""
    folder = cache / OURS / "aside"
    with contextlib.suppress(OSError):
        for old in sorted(folder.iterdir())[:-KEPT]:
            with contextlib.suppress(OSError):
                old.unlink() if not old.is_dir() or old.is_symlink() else shutil.rmtree(old, ignore_errors=True)
