"""What this process can say of the gate: one JSON file each, which the guard reads before it says READY.

The engine logs a plugin's failure and serves on without it. So a hook counts as `installed` when it was registered,
and as `active` only from its first call; warm-up makes that call.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

PLUGIN = "dsv4-gate"


class Record:
    """The state of this process's hooks, written anew on every change."""

    def __init__(self, folder: Path | None) -> None:
        self.file = folder / f"{PLUGIN}.{os.getpid()}.json" if folder else None
        self.hooks: dict[str, str] = {}
        self.required: tuple[str, ...] = ()
        self.problem: str | None = "register() did not return"

    def mark(self, target: str, state: str) -> None:
        """`installed` or `active`; a repeated mark costs one look-up."""
        if self.hooks.get(target) != state:
            self.hooks[target] = state
            self.write()

    def close(self, problem: str | None) -> None:
        """register() is done; `problem` is why the gate is not in place."""
        self.problem = problem
        self.write()

    def write(self) -> None:
        """Whole or not at all: the guard may read at any moment."""
        if self.file is None:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_suffix(".part")
        draft.write_text(
            json.dumps(
                {
                    "plugin": PLUGIN,
                    "pid": os.getpid(),
                    "program": Path(sys.argv[0]).name,
                    "status": "failed" if self.problem else "ok",
                    "reason": self.problem or "",
                    "patches": self.hooks,
                    "required": list(self.required),
                    "time": time.time(),
                }
            ),
            encoding="utf-8",
        )
        draft.replace(self.file)
