from __future__ import annotations

from pathlib import Path

from dsv4_pd.run.follow import MAX_LINE, Follower


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_once_and_whole(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    follower = Follower(log)
    assert follower.lines() == []
    append(log, "one\ntwo\nthr")
    assert follower.lines() == ["one", "two"]
    append(log, "ee\n")
    assert follower.lines() == ["three"]
    assert follower.lines() == []


def test_progress_bars_are_lines(tmp_path: Path) -> None:
    append(tmp_path / "x.log", "10%\r20%\r\n")
    assert Follower(tmp_path / "x.log").lines() == ["10%", "20%"]


def test_rotation_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    append(log, "one\n")
    follower = Follower(log)
    assert follower.lines() == ["one"]
    append(log, "two\n")
    log.rename(tmp_path / "x.log.1")
    append(log, "three\n")
    assert follower.lines() == ["two", "three"]


def test_a_file_that_was_cut_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    append(log, "a long first line\n")
    follower = Follower(log)
    follower.lines()
    log.write_text("new\n")
    assert follower.lines() == ["new"]


def test_a_flood_without_newlines_stays_bounded(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    append(log, "x" * (5 * MAX_LINE) + "\nnext\n")
    lines = Follower(log).lines()
    assert lines[-1] == "next" and all(len(line) <= 2 * MAX_LINE for line in lines)


def test_from_end_skips_what_was_there(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    append(log, "old\n")
    follower = Follower(log, from_end=True)
    append(log, "new\n")
    assert follower.lines() == ["new"]
