"""Docker's grace period must be longer than the drain."""

from __future__ import annotations

import re

from dsv4_pd.doctor.base import Check, Finding, ok, skip, warn
from dsv4_pd.plan.situation import Situation

DEFAULT_S = 90.0  # stop_grace_period in compose.yaml
AFTER_DRAIN_S = 30.0  # the router's exit, killing what is left, removing its files
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}


def _run(s: Situation) -> Finding:
    if not s.env("DSV4_COMPOSE_VERSION"):
        return skip("not started by compose.yaml")
    text = s.env("STOP_GRACE_PERIOD")
    grace, needed = _seconds(text) if text else DEFAULT_S, s.settings.drain_timeout + AFTER_DRAIN_S
    if grace is None:
        return skip(f"STOP_GRACE_PERIOD={text} is no duration")
    read = f"{grace:.0f} s for a stop that may take {needed:.0f} s"
    return ok(read) if grace >= needed else warn(read, f"set STOP_GRACE_PERIOD={needed:.0f}s in .env")


def _seconds(text: str) -> float | None:
    """
    >>> _seconds("1m30s"), _seconds("500ms"), _seconds("90")
    (90.0, 0.5, None)
    """
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(h|ms|m|s)", text))


CHECK = Check(
    name="stop-grace",
    place=40,
    symptom="answers are cut off when the container is stopped, although DSV4_DRAIN_TIMEOUT is long enough",
    why="Docker kills a container that has not stopped within its grace period, in the middle of the drain.",
    source="docker stop --timeout; docs/compose.md (stop_grace_period)",
    run=_run,
    gpu_only=False,
)
