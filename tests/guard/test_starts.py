"""Starts in a row, kept over restarts: when safe mode begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsv4_pd.run.guard.tell import starts


def test_starts_in_a_row() -> None:
    record = starts.Starts()
    for _ in range(3):
        assert starts.safe_reason(record, "plan", "auto", 3) is None
        record = record.begin("plan")
    assert starts.safe_reason(record, "plan", "auto", 3)
    assert starts.safe_reason(record, "plan", "off", 3) is None
    assert starts.safe_reason(record, "another plan", "auto", 3) is None
    assert record.begin("another plan").open == 1
    assert record.succeeded({}).open == 0
    assert starts.safe_reason(starts.Starts(), "plan", "on", 3)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"open": 1, "new": 2}', "null"])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "starts.json").write_text(text)
    assert starts.read(tmp_path / "starts.json") == starts.Starts()


def test_a_read_only_state_folder_is_said_and_survived(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "starts.json" in str(starts.write(tmp_path / "file" / "starts.json", starts.Starts()))
