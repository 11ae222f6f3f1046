"""How soon the state tells of a fault: read from docs/health.md, so that what is promised is what is counted."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/health.md"
DEATH, SILENCE, STRANGER = "a death", "a silence", "a stranger in the router's list"
MEMBER = "a death of one of several members"
NOTHING = "a fault that no request may notice"


@cache
def table() -> dict[str, float]:
    """Seconds by name of the fault."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- BEGIN detection")
    rows = re.findall(r"^\| ([^|]+) \| (\d+) s \|", rest.partition("<!-- END detection -->")[0], re.MULTILINE)
    return {name: float(seconds) for name, seconds in rows}


def seconds(name: str, *, several: bool = False) -> float | None:
    """The bound of one row; None where no request may notice the fault, so that it excuses none. `several`: members,
    of which the router gives a dead one requests until it has noticed.
    """
    return table()[MEMBER if several and name == DEATH else name] or None
