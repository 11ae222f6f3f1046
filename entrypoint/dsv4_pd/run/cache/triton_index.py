"""Triton's index of an entry: `__grp__NAME.json` names the entry's files by absolute path."""

from __future__ import annotations

import json
import os
from pathlib import Path


def fault(index: Path, data: bytes) -> str | None:
    """What keeps Triton from using the entry. A file that the index names elsewhere and that lies here is no fault."""
    try:
        named = json.loads(data)["child_paths"]
        missing = [name for name in named if Path(name).name != name or not (index.parent / name).is_file()]
    except (ValueError, TypeError, KeyError):
        return f"{index.name}: no index"
    return f"{missing[0]} is missing" if missing else None


def rehome(folder: Path, home: Path) -> bool:
    """Let the indices in a folder name files in `home`, where the folder lies or will lie; whether one changed.

    Raises:
        OSError, ValueError: an index can't be read or written.
    """
    changed = False
    for index in folder.glob("__grp__*.json"):
        group = json.loads(index.read_bytes())
        there = {name: str(home / name) for name in group["child_paths"]}
        if there != group["child_paths"]:
            draft = index.with_name(f"tmp.pid_{os.getpid()}")
            draft.write_text(json.dumps(group | {"child_paths": there}), encoding="utf-8")
            draft.replace(index)
            changed = True
    return changed
