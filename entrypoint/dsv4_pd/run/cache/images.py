"""A cache folder that another image has filled: its kernels are parked, and come back when that image does.

The image's own default has a folder for each image (docker/entry.sh); this is for an operator's fixed folder.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

from dsv4_pd.run.cache.systems import OURS, SYSTEMS

_TOPS = tuple(dict.fromkeys(pattern.split("/")[0] for system in SYSTEMS for pattern in system.patterns))
_KEY = re.compile(r"[0-9a-f]{12}")


def change(cache: Path, image: str) -> list[str]:
    """Park what an image of another key left and bring back what this one left; lines for the log.

    Only where nobody else uses the folder. A blank key (no image) changes nothing.

    Raises:
        OSError: the folder can't be written.
    """
    before = owner(cache)
    if not image or before == image:
        return []
    lines = []
    if before and _move(cache, cache, _parked(cache, before)):
        lines.append(f"kernel cache: what image {before} compiled is set aside in {_parked(cache, before)}")
    if _move(cache, _parked(cache, image), cache):
        lines.append(f"kernel cache: what this image ({image}) compiled before is used again")
    (cache / OURS).mkdir(parents=True, exist_ok=True)
    (cache / OURS / "image.json").write_text(json.dumps({"key": image}), encoding="utf-8")
    return lines


def owner(cache: Path) -> str:
    """The key of the image that filled the folder; blank where that is not known."""
    try:
        key = json.loads((cache / OURS / "image.json").read_bytes())["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return key if isinstance(key, str) and _KEY.fullmatch(key) else ""


def _parked(cache: Path, image: str) -> Path:
    return cache / OURS / "images" / image


def _move(cache: Path, source: Path, target: Path) -> bool:
    """Every compiler's folder, and our digests of it; whether there was one."""
    moved = False
    pairs = [(source / top, target / top) for top in _TOPS]
    inner = [cache / OURS / "digests" if folder == cache else folder / "digests" for folder in (source, target)]
    for old, new in (*pairs, (inner[0], inner[1])):
        new.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            old.rename(new)
            moved = True
    return moved
