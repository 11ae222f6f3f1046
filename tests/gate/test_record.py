"""The gate's proof: what the guard reads of a process before it says READY."""

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


def test_a_hook_is_active_only_from_its_first_call(tmp_path: Path) -> None:
    from dsv4_gate.record import Record

    record = Record(tmp_path / "new")
    record.required = ("a.b",)
    record.mark("a.b", "installed")
    assert read(tmp_path / "new")["status"] == "failed", "register() has not returned yet"
    record.close(None)
    found = read(tmp_path / "new")
    assert (found["plugin"], found["status"], found["patches"]) == ("dsv4-gate", "ok", {"a.b": "installed"})
    record.mark("a.b", "active")
    assert read(tmp_path / "new")["patches"] == {"a.b": "active"}
    assert found["required"] == ["a.b"]


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
