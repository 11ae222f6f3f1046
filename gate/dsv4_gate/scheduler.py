"""The gate in the engine's scheduler: the only module that knows that process's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsv4_hooks.table import Around
from sglang.srt.managers.io_struct import AbortReq

from dsv4_gate.budget import WORDS, Meter
from dsv4_gate.targets import ABORTS, ACCEPT, MASK

METER = Meter()  # of this process: its hooks add up what one request's grammar has cost


def _aborts(original: Callable[..., Any], scheduler: Any) -> list[Any]:
    late = METER.late(scheduler.collect_inflight_reqs()) if METER.over else []
    return [*original(scheduler), *(AbortReq(rid=rid, abort_message=WORDS) for rid in late)]


# target -> what runs around it; targets.py holds what each must look like
AROUND: dict[str, Around] = {MASK: METER.timed, ACCEPT: METER.timed, ABORTS: _aborts}
