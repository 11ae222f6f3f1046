"""Kernels that the image brings compiled: put them where the engine's compiler looks first."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path


def seed(prebuilt: Path, cache: Path) -> int:
    """Copy each of Triton's entries that `cache` lacks from `prebuilt`; returns how many.

    An entry is a folder named by a hash of source, compiler, options and card, so one of another image is never
    taken for ours. Its index names files by absolute path; the copy's index names the copies. Neither folder has to
    exist. An entry appears whole or not at all, also when two servers look on.
    """
    if not prebuilt.is_dir():
        return 0
    cache.mkdir(parents=True, exist_ok=True)
    missing = [entry for entry in sorted(prebuilt.iterdir()) if entry.is_dir() and not (cache / entry.name).exists()]
    with tempfile.TemporaryDirectory(dir=cache, prefix=".seed-") as draft:
        for entry in missing:
            fresh = Path(draft) / entry.name
            shutil.copytree(entry, fresh)
            for index in fresh.glob("__grp__*.json"):
                _name_copies(index, cache / entry.name)
            fresh.rename(cache / entry.name)
    return len(missing)


def _name_copies(index: Path, home: Path) -> None:
    group = json.loads(index.read_text(encoding="utf-8"))
    group["child_paths"] = {name: str(home / name) for name in group["child_paths"]}
    index.write_text(json.dumps(group), encoding="utf-8")
