"""One scrape: ask every program at once, join the answers, add ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2

from dsv4_pd.run import loopback_http
from dsv4_pd.run.cache.systems import OURS
from dsv4_pd.run.ops import own
from dsv4_pd.run.ops.exposition import join, render

_TIMEOUT = 4.0  # seconds; below Prometheus' own 10 s, so that one silent program costs no scrape
_BUILT = {".cubin": "cubin", ".so": "shared_object"}


async def scrape(client: httpx2.AsyncClient, targets: Mapping[str, str]) -> dict[str, str | None]:
    """Role -> its exposition text; None when it did not answer."""
    texts = await asyncio.gather(*(_get(client, url) for url in targets.values()))
    return dict(zip(targets, texts, strict=True))


async def _get(client: httpx2.AsyncClient, url: str) -> str | None:
    try:
        async with asyncio.timeout(_TIMEOUT):
            answer = await client.get(url)
    except (*loopback_http.FAILURES, TimeoutError):
        return None
    return answer.text if answer.status_code == httpx2.codes.OK else None


def exposition(document: Mapping[str, Any], texts: Mapping[str, str | None], compiles: Mapping[str, int]) -> str:
    """The whole text of /metrics."""
    roles = {name: own.labels(document, name)["role"] for name in texts}
    joined = join({name: text for name, text in texts.items() if text is not None}, roles)
    return render([*own.families(document, texts, compiles), *joined.values()])


def compiled_since(folder: Path, moment: float) -> dict[str, int]:
    """Compiled kernels in the cache that are younger than `moment` (epoch seconds), by kind."""
    counts = dict.fromkeys(_BUILT.values(), 0)
    for path in _walk(folder):
        kind = _BUILT.get(Path(path.name).suffix)
        if kind and path.stat(follow_symlinks=False).st_mtime > moment:
            counts[kind] += 1
    return counts


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and entry.name != OURS:  # what was moved aside is no compile
            yield from _walk(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield entry
