"""The plugins' own proof: JSON records that each engine process leaves in the run folder.

SGLang logs a plugin's failure and serves on without it, so only a record counts: every process of a server that wrote
one says `ok`, and at least one patch there was called (`active`); `required` patches were all called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


def missing(
    folder: Path, servers: Mapping[str, int], plugins: tuple[str, ...], group_of: Callable[[int], int | None]
) -> tuple[str, ...]:
    """Which plugin is not proved in which server. `servers`: name -> process group; the dead prove nothing."""
    if not plugins:
        return ()
    records = [(record, group_of(int(record.get("pid", 0)))) for record in _records(folder)]
    found = []
    for server, group in servers.items():
        for plugin in plugins:
            mine = [record for record, owner in records if owner == group and record.get("plugin") == plugin]
            why = _doubt(mine)
            if why:
                found.append(f"{plugin} in {server}: {why}")
    return tuple(found)


def _doubt(records: list[dict[str, Any]]) -> str | None:
    """Why these records, all of one plugin in one server, prove nothing; None when they do."""
    if not records:
        return "left no record"
    for record in records:
        if record.get("status") != "ok":
            return str(record.get("reason") or "reports a failure")[:160]
    active = {name for record in records for name, mark in record.get("patches", {}).items() if mark == "active"}
    required = {name for record in records for name in record.get("required", ())}
    if required - active:
        return f"never called: {', '.join(sorted(required - active))}"
    return None if active else "none of its patches was called yet"


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # being written
        if isinstance(data, dict):
            yield data
