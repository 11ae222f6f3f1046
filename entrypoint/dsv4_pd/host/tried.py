"""Readers of the machine, each on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Found = TypeVar("_Found")


class Tried:
    """Readers, each on its own: one that raises costs what it reads, and is named."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def __call__(self, what: str, reader: Callable[[], _Found], default: Any) -> _Found:
        try:
            return reader()
        except Exception as error:  # a file that nobody foresaw must not hide the rest of the machine
            self.failed.append(f"{what} ({type(error).__name__}: {' '.join(str(error).split())[:120]})")
            fallback: _Found = default
            return fallback
