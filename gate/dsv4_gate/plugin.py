"""The entry point that SGLang calls in each of its processes."""

from __future__ import annotations

import multiprocessing
import os

from dsv4_hooks import table
from dsv4_hooks.record import FOLDER_VARIABLE, Record, folder_of

from dsv4_gate import targets
from dsv4_gate.rules import UNSERVED

PLUGIN = "dsv4-gate"


def register() -> None:
    """Hook the process that takes requests; the others (scheduler, detokenizer) only record that they need no hook."""
    record = Record(PLUGIN, folder_of(os.environ.get(FOLDER_VARIABLE)))
    try:
        if multiprocessing.parent_process() is None:
            install(record)
    except Exception as problem:  # SGLang would log it and serve on; the record keeps the guard from READY
        record.fail(problem)
        raise
    record.succeed()


def install(record: Record) -> None:
    """Check every target first: all hooks or none."""
    targets.check_request(tuple(UNSERVED))
    table.install(targets.HOOKS, record, table.put_around)
