"""The plugin's own environment, read once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    record_dir: Path | None  # where each process leaves its record; unset: nowhere
    corrupt: bool  # negative control: send the wrong KV blocks


def read_settings() -> Settings:
    directory = os.environ.get("DSV4_PLUGIN_RECORD_DIR", "").strip()
    corrupt = os.environ.get("DSV4_CPU_PD_CORRUPT", "").strip()
    if corrupt not in {"", "0", "1"}:
        raise ValueError(f"DSV4_CPU_PD_CORRUPT is {corrupt!r}, expected 1 (send wrong KV blocks) or unset")
    return Settings(record_dir=Path(directory) if directory else None, corrupt=corrupt == "1")
