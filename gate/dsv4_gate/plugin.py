"""The entry point that SGLang calls in each of its processes."""

from __future__ import annotations

import multiprocessing
import os
import sys

from dsv4_bake import ahead
from dsv4_hooks import compiles, table
from dsv4_hooks.record import FOLDER_VARIABLE, Record, folder_of

from dsv4_gate import lines, rendezvous, targets
from dsv4_gate.rules import UNSERVED

PLUGIN = "dsv4-gate"
SCHEDULER = "sglang.srt.managers.scheduler"  # the engine names its process only later


def register() -> None:
    """Hook the process that takes requests, those that schedule them, and in every child where ranks meet.

    In each, a log record becomes one line, and what is compiled is noted.
    """
    record = Record(PLUGIN, folder_of(os.environ.get(FOLDER_VARIABLE)))
    lines.install()
    compiles.start()
    try:
        if multiprocessing.parent_process() is None:
            install(record)
        else:
            if SCHEDULER in sys.modules:
                ahead.start()
                install_in_scheduler(record)
            rendezvous.install(record)
    except Exception as problem:  # SGLang would log it and serve on; the record keeps the guard from READY
        record.fail(problem)
        raise
    record.succeed()


def install(record: Record) -> None:
    """Check every target first: all hooks or none."""
    targets.check_request(tuple(UNSERVED))
    table.install(targets.HOOKS, record, table.put_around)
    from dsv4_gate import hooks

    hooks.open_door()


def install_in_scheduler(record: Record) -> None:
    """As above."""
    table.install(targets.SCHEDULER_HOOKS, record, table.put_around)
