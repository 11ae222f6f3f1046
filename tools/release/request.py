"""What a run of the command is asked for, and what of the outside it reaches."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from release import image as images
from release import promised, wheels
from release.git import Git

PROMISES = "tests/release/promises"
RECORDS = "docs/releases"


@dataclass(frozen=True, slots=True)
class Request:
    """`wheels`, `look` and `promised` are the outside; tests, which have no image, exchange them."""

    root: Path
    version: str
    image: str
    rings: Path | None = None
    dry: bool = False
    wheels: Callable[[Path, str], Mapping[str, str]] = wheels.hashes
    look: Callable[[str], images.Image | str] = images.look
    promised: Callable[[str], dict[str, Any]] = promised.promised
    tell: Callable[[str], None] = field(default=print)

    @property
    def git(self) -> Git:
        """The work tree."""
        return Git(self.root)

    def present(self, name: str) -> str:
        """A file as it is now; blank where there is none."""
        path = self.root / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def show(self, name: str, text: str) -> None:
        """What would change."""
        before = self.present(name).splitlines(keepends=True)
        changes = difflib.unified_diff(before, text.splitlines(keepends=True), f"a/{name}", f"b/{name}")
        self.tell("".join(changes))

    def write(self, texts: Mapping[str, str]) -> None:
        """Put these texts there."""
        for name, text in texts.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
