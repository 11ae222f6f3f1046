"""Rows of config/signatures.toml, and where each says that its words come from."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from conftest import ROOT, VENVS

ROWS = [
    row
    for kind, rows in tomllib.loads((ROOT / "config/signatures.toml").read_text(encoding="utf-8")).items()
    for row in rows
    if kind in ("fatal", "milestone", "progress")
]  # fmt: skip
ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+")
SITE = next(iter((VENVS / "engine/lib").glob("python3.*/site-packages")), VENVS / "engine")
ONLY_WITH_CUDA = re.compile(r"nvidia/|sgl_kernel/|torch/lib/\w+_cuda\.so")


def written(row: dict[str, Any]) -> list[tuple[str, str]]:
    """File or report -> words; a report of a row without text may have none."""
    found = [one.partition(": ") for one in row["source"]]
    return [(place, words or row.get("text", "")) for place, _, words in found]


def name(row: dict[str, Any]) -> str:
    return str(row.get("text") or row["regex"])[-60:]
