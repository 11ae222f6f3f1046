"""A part of the ring writes JSON lines: the machine first, then what it found, then whether it came to its end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpu import machine


def folder() -> Path:
    """Where parts write: `RING_OUT`, else `build/gpu` of the current folder."""
    path = Path(os.environ.get("RING_OUT", "build/gpu"))
    path.mkdir(parents=True, exist_ok=True)
    return path


class Part:
    """One file a part; an error is recorded, and raised on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = folder() / f"{name}.jsonl"
        self.begun = time.monotonic()
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self.path.unlink(missing_ok=True)
        self.line("machine", part=self.name, **machine.facts())
        return self

    def line(self, kind: str, **values: Any) -> None:
        text = json.dumps({"kind": kind, **values}, default=str)
        with self.path.open("a", encoding="utf-8") as out:
            out.write(text + "\n")
        print(f"{self.name} {time.monotonic() - self.begun:6.1f} s  {text[:400]}", flush=True)

    def expect(self, true: bool, what: str, **values: Any) -> bool:
        """A check with its figures; the part goes on, and ends as failed."""
        self.line("check", what=what, ok=bool(true), **values)
        if not true:
            self.failures.append(what)
        return bool(true)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.failures.append(f"{type(error).__name__}: {error}")
        seconds = round(time.monotonic() - self.begun, 1)
        self.line("end", ok=not self.failures, failures=self.failures, seconds=seconds)
