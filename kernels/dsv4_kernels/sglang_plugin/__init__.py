"""Entry point `dsv4-kernels` of SGLang's plugin group: check every target against the pinned engine, then hook it."""

from __future__ import annotations

import importlib.metadata

from dsv4_hooks import table as hook_table
from dsv4_hooks.record import Record
from dsv4_hooks.targets import EngineChanged, require_version

from dsv4_kernels import settings
from dsv4_kernels.sglang_plugin import table

PLUGIN = "dsv4-kernels"


def register() -> None:
    """Never half: one target that does not match and none is hooked, and the record says why."""
    chosen = settings.load()
    record = Record(PLUGIN, chosen.record_folder)
    if not chosen.enabled:
        record.succeed("DSV4_KERNELS=stock")
        return
    try:
        install(record)
    except Exception as error:
        record.fail(error)
        raise
    record.succeed()


def install(record: Record) -> None:
    """The version counts too: the ops stand on what the targets' callers pass, not on their parameters alone."""
    try:
        require_version(importlib.metadata.version("sglang"))
        hook_table.install(table.HOOKS, record, hook_table.put_around)
    except EngineChanged as error:
        raise EngineChanged(f"{error}; DSV4_KERNELS=stock serves without our kernels") from error
