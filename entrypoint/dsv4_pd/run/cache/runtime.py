"""Digests for what the engine compiles while it runs: written as soon as it is still, so that a crash finds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dsv4_pd.run.cache import check, digests
from dsv4_pd.run.cache.judge import EntryState, judge
from dsv4_pd.run.cache.systems import entries, label


def seal_settled(cache: Path, now: float, seconds: Mapping[tuple[str, str], float]) -> int:
    """How many got a digest. What is damaged stays: a server may be using it, and the next start looks again.

    now: seconds since the epoch. seconds: (system, kernel) -> how long compiling it took.

    Raises:
        OSError: a digest can't be written.
    """
    sealed = 0
    for entry in list(entries(cache)):
        if digests.place(cache, entry.relative).exists():
            continue
        verdict = judge(entry, None, now, alone=False)
        if verdict.outcome is EntryState.WHOLE:
            took = seconds.get((entry.system.name, label(entry)))
            check.seal(entry, verdict, None, "here", took)
            sealed += 1
    return sealed
