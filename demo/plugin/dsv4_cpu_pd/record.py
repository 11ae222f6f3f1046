"""One JSON file per process that says what the plugin put in place.

SGLang logs a plugin's exception and carries on, so nothing but this file (and the exit below) tells a working
process from one that runs without the plugin. A patch is `installed` when register() returns, and `active`
from its first call on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PLUGIN = "dsv4-cpu"


@dataclass(slots=True)
class Record:
    directory: Path | None
    patches: dict[str, str] = field(default_factory=dict)  # target -> installed | active
    status: str = "failed"
    reason: str = "register() has not returned"

    def installed(self, target: str) -> None:
        self.patches[target] = "installed"

    def active(self, target: str) -> None:
        """First call of a patch; later calls cost one dictionary look-up."""
        if self.patches.get(target) != "active":
            self.patches[target] = "active"
            self.write()

    def finish(self, reason: str | None) -> None:
        self.status, self.reason = ("ok", "") if reason is None else ("failed", reason)
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
            "program": Path(sys.argv[0]).name,
            "status": self.status,
            "reason": self.reason,
            "patches": self.patches,
            "time": time.time(),
        }
