"""Which records prove a plugin in a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.guard.prove import plugin_proof

GOOD = {"plugin": "dsv4-cpu", "pid": 11, "status": "ok", "patches": {"rope": "active", "nixl": "installed"}}
PROOFS: dict[str, tuple[list[dict[str, Any]], str | None]] = {
    "good": ([GOOD], None),
    "no record": ([], "left no record"),
    "of another server": ([{**GOOD, "pid": 99}], "left no record"),
    "of a dead process": ([{**GOOD, "pid": 12}], "left no record"),
    "failed in one process": ([GOOD, {**GOOD, "pid": 10, "status": "failed", "reason": "no such target"}], "no such"),
    "registered, never called": ([{**GOOD, "patches": {"rope": "installed"}}], "none of its patches was called"),
    "a required one never called": ([{**GOOD, "required": ["nixl"]}], "never called: nixl"),
    "of another plugin": ([{**GOOD, "plugin": "other"}], "left no record"),
}


@pytest.mark.parametrize(("records", "doubt"), PROOFS.values(), ids=PROOFS)
def test_proof(tmp_path: Path, records: list[dict[str, Any]], doubt: str | None) -> None:
    for number, record in enumerate(records):
        (tmp_path / f"{number}.json").write_text(json.dumps(record))
    (tmp_path / "half.json").write_text('{"plug')
    groups = {10: 10, 11: 10, 99: 99}
    found = plugin_proof.missing(tmp_path, {"decode": 10}, ("dsv4-cpu",), groups.get)
    assert (not found) if doubt is None else (len(found) == 1 and doubt in found[0] and "in decode" in found[0])
