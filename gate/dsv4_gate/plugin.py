"""The entry point that SGLang calls in each of its processes."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

from dsv4_gate import rendezvous, targets
from dsv4_gate.record import Record
from dsv4_gate.rules import UNSERVED


def register() -> None:
    """Hook the process that takes requests, and in the others (scheduler, detokenizer) where ranks meet."""
    folder = os.environ.get("DSV4_PLUGIN_RECORD_DIR", "").strip()
    record = Record(Path(folder) if folder else None)
    try:
        if multiprocessing.parent_process() is None:
            install(record)
        else:
            rendezvous.install(record)
    except Exception as problem:  # SGLang would log it and serve on; the record keeps the guard from READY
        record.close(f"{type(problem).__name__}: {problem}")
        raise
    record.close(None)


def install(record: Record) -> None:
    """Check every target first: all hooks or none."""
    targets.check(tuple(UNSERVED))
    from dsv4_gate import hooks

    hooks.install(record)
