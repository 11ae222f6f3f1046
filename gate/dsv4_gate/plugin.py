"""The entry point that SGLang calls in each of its processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

from dsv4_gate import lines, targets
from dsv4_gate.record import Record
from dsv4_gate.rules import UNSERVED


def register() -> None:
    """Hook the process that takes requests and those that schedule them; the detokenizer needs none.

    In each, a log record becomes one line.
    """
    folder = os.environ.get("DSV4_PLUGIN_RECORD_DIR", "").strip()
    record = Record(Path(folder) if folder else None)
    lines.install()
    try:
        if multiprocessing.parent_process() is None:
            install(record)
        elif "sglang.srt.managers.scheduler" in sys.modules:  # the engine names its process only later
            install_in_scheduler(record)
    except Exception as problem:  # SGLang would log it and serve on; the record keeps the guard from READY
        record.close(f"{type(problem).__name__}: {problem}")
        raise
    record.close(None)


def install(record: Record) -> None:
    """Check every target first: all hooks or none."""
    targets.check(targets.PARAMETERS)
    targets.check_request(tuple(UNSERVED))
    from dsv4_gate import hooks

    hooks.install(record)


def install_in_scheduler(record: Record) -> None:
    """As above."""
    targets.check(targets.SCHEDULER)
    from dsv4_gate import scheduler

    scheduler.install(record)
