"""What one process can say of a plugin: a JSON file each, which the guard reads before it says READY.

SGLang logs a plugin's exception and serves on without it, so only this file tells a process with the plugin from one
without. A patch is `installed` when its target passed the checks, and `active` from its first call on; warm-up makes
that call. The file's form is record.schema.json beside this module. Its reader, dsv4_pd.run.guard.prove.plugin_proof,
is another distribution and imports nothing of this one; tests/hooks/test_contract.py holds the two together.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

FOLDER_VARIABLE = "DSV4_PLUGIN_RECORD_DIR"  # set by the plan; where it is unset, nothing is written
SCHEMA = 1
RETRY_S = 5.0  # a hook may be called thousands of times a second
Mark = Literal["installed", "active"]
logger = logging.getLogger(__name__)


class Content(TypedDict):
    """The file, field by field."""

    schema: int
    plugin: str  # the name of its entry point
    pid: int  # decides which server the record counts for
    program: str  # argv[0] without its folder, for people
    status: Literal["ok", "failed"]
    reason: str  # why it failed, or a note on a success; may be empty
    required: list[str]  # names in `patches` that the guard waits for
    patches: dict[str, Mark]
    fallbacks: dict[str, list[str]]  # patch -> why the engine's own function ran instead
    time: float  # of this writing, seconds since the epoch


@dataclass(slots=True)
class Record:
    """The state of this process's patches, written again on each change. It fails until register() says otherwise."""

    plugin: str
    folder: Path | None
    required: tuple[str, ...] = ()
    patches: dict[str, Mark] = field(default_factory=dict)
    fallbacks: dict[str, list[str]] = field(default_factory=dict)
    status: Literal["ok", "failed"] = "failed"
    reason: str = "register() has not returned"
    retry_at: float | None = None  # monotonic; set while the file could not be written

    def installed(self, name: str) -> None:
        """Not written yet: succeed() or fail() follows in the same register()."""
        self.patches[name] = "installed"

    def active(self, name: str) -> None:
        """First call of a patch; each later one costs one dictionary look-up."""
        if self.patches.get(name) == "active" and self.retry_at is None:
            return
        self.patches[name] = "active"
        if self.retry_at is None or time.monotonic() >= self.retry_at:
            self._write_or_retry()

    def fallback(self, name: str, reason: str) -> None:
        """The engine's own function ran: logged and written once for each reason."""
        reasons = self.fallbacks.setdefault(name, [])
        if reason not in reasons:
            reasons.append(reason)
            logger.warning("%s: %s uses the engine's own path: %s", self.plugin, name, reason)
            self._write_or_retry()

    def succeed(self, note: str = "") -> None:
        """register() is done and what it wanted is in place."""
        self.status, self.reason = "ok", note
        self._write_or_retry()

    def fail(self, error: Exception) -> None:
        """register() could not do its work; the guard shows the reason and does not say READY."""
        self.status, self.reason = "failed", f"{type(error).__name__}: {error}"
        self._write_or_retry()

    def _write_or_retry(self) -> None:
        """A full or lost run folder costs the proof, not the request in whose call the hook stands."""
        try:
            self.write()
            self.retry_at = None
        except OSError as error:
            logger.warning("%s: no record in %s: %s; trying again with a later call", self.plugin, self.folder, error)
            self.retry_at = time.monotonic() + RETRY_S

    def write(self) -> None:
        """Whole or not at all: the guard may read at any moment, and the engine's threads may write at once."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / f"{self.plugin}.{os.getpid()}.json"
        draft = target.with_suffix(f".{threading.get_ident()}.part")
        draft.write_text(json.dumps(self.content()), encoding="utf-8")
        draft.replace(target)

    def content(self) -> Content:
        """What is written."""
        return {
            "schema": SCHEMA,
            "plugin": self.plugin,
            "pid": os.getpid(),
            "program": Path(sys.argv[0]).name,
            "status": self.status,
            "reason": self.reason,
            "required": list(self.required),
            "patches": dict(self.patches),
            "fallbacks": {name: list(reasons) for name, reasons in self.fallbacks.items()},
            "time": time.time(),
        }


def folder_of(value: str | None) -> Path | None:
    """The folder in DSV4_PLUGIN_RECORD_DIR; blank is unset.

    >>> folder_of(" /run/dsv4-pd/plugins "), folder_of(""), folder_of(None)
    (PosixPath('/run/dsv4-pd/plugins'), None, None)
    """
    text = (value or "").strip()
    return Path(text) if text else None
