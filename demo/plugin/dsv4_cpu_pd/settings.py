"""The plugin's own environment, read once."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    corrupt: bool  # negative control: send the wrong KV blocks


def read_settings() -> Settings:
    corrupt = os.environ.get("DSV4_CPU_PD_CORRUPT", "").strip()
    if corrupt not in {"", "0", "1"}:
        raise ValueError(f"DSV4_CPU_PD_CORRUPT is {corrupt!r}, expected 1 (send wrong KV blocks) or unset")
    return Settings(corrupt=corrupt == "1")
