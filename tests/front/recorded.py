"""Answers of the real pair through both real routers, as they came (SGLang 0.5.23, sglang-router 0.3.2, smg 1.13.0)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ALL = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer."""

    status: int
    type: str
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


def answer(name: str, router: str = "smg") -> Recorded:
    """The answer to one request through one router."""
    found = _ALL[name][router]
    return Recorded(found["status"], found["type"] or "", found["text"])
