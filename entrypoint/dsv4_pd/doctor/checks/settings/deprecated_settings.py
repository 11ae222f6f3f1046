"""No setting may be given under a deprecated name."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    old = s.settings.deprecated
    if old:
        return warn(f"{', '.join(old)} set", "; ".join(old.values()))
    return ok("none")


CHECK = Check(
    name="deprecated-settings",
    place=100,
    symptom="after an upgrade the start is refused with exit code 2: a name that no setting has",
    why="A renamed setting is read under its old name for one minor version; the next one may refuse it.",
    source="docs/compatibility.md",
    run=_run,
    gpu_only=False,
)
