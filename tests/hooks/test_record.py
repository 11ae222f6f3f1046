"""The record of one process: what it says and when."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from dsv4_hooks.record import RETRY_S, Record, folder_of


def read(folder: Path) -> dict[str, Any]:
    (file,) = folder.iterdir()  # no draft stays behind
    assert file.suffix == ".json"
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_a_patch_is_active_only_from_its_first_call(tmp_path: Path) -> None:
    record = Record("dsv4-test", tmp_path / "new" / "plugins", required=("a.b",))
    record.installed("a.b")
    record.succeed()
    found = read(tmp_path / "new" / "plugins")
    assert (found["plugin"], found["status"], found["patches"]) == ("dsv4-test", "ok", {"a.b": "installed"})
    assert found["required"] == ["a.b"]
    record.active("a.b")
    assert read(tmp_path / "new" / "plugins")["patches"] == {"a.b": "active"}


def test_until_register_returns_it_is_a_failure(tmp_path: Path) -> None:
    """An engine that calls a hook while the next one is being put in place has no working plugin yet."""
    record = Record("dsv4-test", tmp_path)
    record.active("a")
    assert (read(tmp_path)["status"], read(tmp_path)["reason"]) == ("failed", "register() has not returned")


def test_a_failure_names_its_kind(tmp_path: Path) -> None:
    Record("dsv4-test", tmp_path).fail(ImportError("no sglang"))
    assert (read(tmp_path)["status"], read(tmp_path)["reason"]) == ("failed", "ImportError: no sglang")


def test_a_note_is_no_failure(tmp_path: Path) -> None:
    Record("dsv4-test", tmp_path).succeed("DSV4_KERNELS=stock")
    assert (read(tmp_path)["status"], read(tmp_path)["reason"]) == ("ok", "DSV4_KERNELS=stock")


def test_a_fallback_is_written_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = Record("dsv4-test", tmp_path)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            record.fallback("a", "why")
    assert read(tmp_path)["fallbacks"] == {"a": ["why"]}
    assert len(caplog.records) == 1


def test_a_repeated_call_writes_nothing(tmp_path: Path) -> None:
    record = Record("dsv4-test", tmp_path)
    record.active("a")
    (file,) = tmp_path.iterdir()
    file.unlink()
    record.active("a")
    assert not list(tmp_path.iterdir())


def test_no_folder_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Record("dsv4-test", folder_of("")).succeed()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_no_call_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook stands in a forward pass: an exception there would end the scheduler."""
    clock = [100.0]
    monkeypatch.setattr("dsv4_hooks.record.time.monotonic", lambda: clock[0])
    folder = tmp_path / "plugins"
    folder.write_text("a file where the folder should be")
    record = Record("dsv4-test", folder)
    record.succeed()
    record.active("a")
    folder.unlink()
    record.active("a")
    assert not folder.exists(), "not at every call"
    clock[0] += RETRY_S
    record.active("a")
    assert read(folder)["patches"] == {"a": "active"}
