"""What outlives a container: how long the last good start took, and how many starts failed in a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Starts:
    """The record in the state volume. `open`: starts in a row that have not reached READY."""

    fingerprint: str = ""
    open: int = 0
    cause: str = ""  # how the last failed start ended
    seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # role -> phase -> seconds from its start

    def begin(self, fingerprint: str) -> Starts:
        """Count a start; another plan or image starts a new row."""
        row = self.open if fingerprint == self.fingerprint else 0
        return replace(self, fingerprint=fingerprint, open=row + 1)

    def succeeded(self, seconds: Mapping[str, Mapping[str, float]]) -> Starts:
        """READY was reached."""
        return replace(self, open=0, cause="", seconds={**self.seconds, **seconds})

    def withdrawn(self) -> Starts:
        """The start was stopped by its operator: neither good nor failed."""
        return replace(self, open=max(0, self.open - 1))


def safe_reason(before: Starts, fingerprint: str, mode: str, after: int) -> str | None:
    """Why nothing may be started, or None. `before` is the record that earlier starts left."""
    if mode == "on":
        return "DSV4_SAFE_MODE=on: nothing is started; unset it to start"
    if mode == "off" or before.fingerprint != fingerprint or before.open < after:
        return None
    last = f"; the last: {before.cause}" if before.cause else ""
    return f"{before.open} starts in a row failed{last}; change a setting or the image, or set DSV4_SAFE_MODE=off"


def read(path: Path) -> Starts:
    """The record; an unreadable one counts as none, because it must never keep the appliance from starting."""
    try:
        return Starts(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Starts()


def write(path: Path, starts: Starts) -> str | None:
    """Store the record; returns what went wrong, because a full or read-only volume must not stop the guard."""
    fresh = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(asdict(starts)), encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
