"""What `serve` does with its cache folder before it starts a server."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from dsv4_pd.run.cache import images
from dsv4_pd.run.cache.check import check, said
from dsv4_pd.run.cache.in_use import InUse
from dsv4_pd.run.cache.seed import seed


@dataclass(frozen=True, slots=True)
class Prepared:
    """`use` is held until the appliance ends; `lines` are for the log."""

    use: InUse
    lines: tuple[str, ...]


def prepare(cache: Path, prebuilt: Path | None, image: str) -> Prepared:
    """Set aside what another image wrote, look over what is there, and add what the image brings.

    prebuilt: the folder of what the image brings, if its engine uses any. image: names the image's compilers; blank
    outside an image.

    Raises:
        OSError: the folder can't be written, or is full.
    """
    cache.mkdir(parents=True, exist_ok=True)
    use = InUse(cache)
    try:
        lines = images.change(cache, image) if use.alone else []
        report = check(cache, time.time(), alone=use.alone)
        added = seed(prebuilt, cache) if prebuilt else 0
        use.share()
    except BaseException:
        use.close()
        raise
    return Prepared(use, (*lines, *said(report), *([_added(added)] if added else [])))


def _added(count: int) -> str:
    return f"kernel cache: {count} kernels taken from the image"
