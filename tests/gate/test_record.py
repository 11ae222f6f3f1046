"""The gate's entry point: what it leaves for the guard. The record itself is tested in tests/hooks."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest


def read(folder: Path) -> dict[str, Any]:
    (file,) = folder.glob("dsv4-gate.*.json")
    data: dict[str, Any] = json.loads(file.read_text())
    return data


def test_without_the_engine_register_fails_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsv4_gate.plugin import register

    monkeypatch.setenv("DSV4_PLUGIN_RECORD_DIR", str(tmp_path))
    with pytest.raises(Exception, match="sglang"):
        register()
    assert read(tmp_path)["status"] == "failed"
    assert "sglang" in read(tmp_path)["reason"]


def test_a_child_of_the_server_may_be_a_rank_and_fails_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsv4_gate.plugin import register

    monkeypatch.setenv("DSV4_PLUGIN_RECORD_DIR", str(tmp_path))
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    with pytest.raises(Exception, match="torch"):
        register()
    assert (read(tmp_path)["status"], "torch" in read(tmp_path)["reason"]) == ("failed", True)
