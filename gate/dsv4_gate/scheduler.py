"""The gate in the engine's scheduler: the only module that knows that process's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.managers.io_struct import AbortReq
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from dsv4_gate.budget import WORDS, Meter
from dsv4_gate.record import Record
from dsv4_gate.targets import ABORTS, ACCEPT, MASK


def install(record: Record) -> None:
    """Nothing here is called before a request with a grammar, so nothing is required to be active before READY."""
    meter = Meter()

    def aborts(original: Callable[..., Any], scheduler: Any) -> list[Any]:
        late = meter.late(scheduler.collect_inflight_reqs()) if meter.over else []
        return [*original(scheduler), *(AbortReq(rid=rid, abort_message=WORDS) for rid in late)]

    hooks: dict[str, Callable[..., Any]] = {MASK: meter.timed, ACCEPT: meter.timed, ABORTS: aborts}
    for target, hook in hooks.items():
        HookRegistry.register(target, hook, HookType.AROUND)
        record.mark(target, "installed")
