"""Compare a model's files with the hashes in their names again: minutes for 160 GB, for whoever doubts the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dsv4_pd.run.download.store import by_name, digest


def wrong(folder: Path, say: Callable[[str], object]) -> tuple[str, ...]:
    """Files whose content is not what their name in the cache says; a plain copy has no such names."""
    found = []
    for path in sorted(folder.rglob("*")):
        promised = by_name(path) if path.is_symlink() else None
        if promised is None:
            continue
        say(f"{path.relative_to(folder)} ...")
        if digest(path, promised, lambda _: None) != promised:
            found.append(f"{path.relative_to(folder)} is damaged: its hash is not {promised[:12]}...")
    return tuple(found)
