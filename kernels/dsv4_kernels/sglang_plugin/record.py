"""One JSON file per process: which hooks are in place, which have been called, and where the engine's path ran instead.

SGLang logs a plugin's exception and carries on with its own kernels, so this file is what tells a process with our
kernels from one without. A patch is `installed` when its target passed the checks, `active` from its first call on.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

PLUGIN = "dsv4-kernels"
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Record:
    directory: Path | None
    required: tuple[str, ...] = ()
    patches: dict[str, str] = field(default_factory=dict)
    fallbacks: dict[str, list[str]] = field(default_factory=dict)
    status: str = "failed"
    reason: str = "register() has not returned"

    def installed(self, name: str) -> None:
        self.patches[name] = "installed"

    def active(self, name: str) -> None:
        """Costs one look-up after the first call."""
        if self.patches.get(name) != "active":
            self.patches[name] = "active"
            self.write()

    def fallback(self, name: str, reason: str) -> None:
        """The engine's own path ran: logged and written once for each reason."""
        reasons = self.fallbacks.setdefault(name, [])
        if reason not in reasons:
            reasons.append(reason)
            logger.warning("%s: %s uses the engine's own path: %s", PLUGIN, name, reason)
            self.write()

    def finish(self, status: str, reason: str = "") -> None:
        self.status, self.reason = status, reason
        self.write()

    def write(self) -> None:
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        target = self.directory / f"{PLUGIN}.{os.getpid()}.json"
        draft = target.with_suffix(".tmp")
        draft.write_text(json.dumps(self.as_json()))
        draft.replace(target)

    def as_json(self) -> dict[str, object]:
        return {
            "plugin": PLUGIN,
            "pid": os.getpid(),
            "status": self.status,
            "reason": self.reason,
            "required": list(self.required),
            "patches": self.patches,
            "fallbacks": self.fallbacks,
        }
