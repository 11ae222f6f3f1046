"""What to change when a card ran out of memory, and by how much: from the line and the memory model. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dsv4_pd.plan.guard.config import MemoryBudget
from dsv4_pd.run.guard.decide.states import Phase

GIB = 1 << 30
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": GIB}
_MARGIN = 0.01  # of a card, beside what the line says is missing


def shortage(groups: Mapping[str, str | None]) -> float:
    """Bytes that an allocation was short of, from torch's own words; 0 where the line has none.

    >>> shortage({"need": "2.50", "need_unit": "GiB", "free": "512.00", "free_unit": "MiB"}) / GIB
    2.0
    """
    need, free = (_size(groups.get(name), groups.get(f"{name}_unit")) for name in ("need", "free"))
    return max(0.0, need - free)


def _size(text: str | None, unit: str | None) -> float:
    return float(text) * _UNITS.get(unit or "", 0) if text else 0.0


def advice(budget: MemoryBudget | None, phase: Phase, short: float) -> str:
    """The words behind the cause of a server that is out of GPU memory."""
    missing = f" ({short / GIB:.1f} GiB short)" if short else ""
    if budget is None:
        return f"{missing}; lower the role's memory fraction (DSV4_PREFILL_MEM_FRACTION, DSV4_DECODE_MEM_FRACTION)"
    if phase in (Phase.DOWN, Phase.START, Phase.WEIGHTS):
        size = f"{budget.weights / GIB:.1f} GiB of weights on a card of {budget.card / GIB:.1f}"
        return f"{missing}; computed are {size}: end what else holds memory there, or give it more GPUs (DSV4_LAYOUT)"
    lower = max(0.02, short / budget.card + _MARGIN)
    target = math.floor((budget.fraction - lower) * 100 + 1e-9) / 100
    if target < budget.least:
        return (
            f"{missing}; {budget.setting}={budget.fraction:g} leaves too little beside the KV cache, and less than "
            f"{budget.least:g} does not hold the longest request: lower {budget.working} or DSV4_CONTEXT_LENGTH"
        )
    return f"{missing}; lower {budget.setting} from {budget.fraction:g} to {target:g}, or {budget.working}"
