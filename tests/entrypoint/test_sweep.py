"""The sweep against real processes: it ends ours, in whatever session they hide, and nobody else's."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from dsv4_pd.plan.environment import RUN_MARK
from dsv4_pd.run.supervision import sweep


def spawn(run: Path | None, script: str = "exec sleep 60") -> subprocess.Popen[bytes]:
    env = {"PATH": "/usr/bin:/bin"} | ({RUN_MARK: str(run)} if run else {})
    return subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True)


def settle(run: Path, count: int) -> None:
    deadline = time.monotonic() + 5
    while len(sweep.find(run)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(sweep.find(run)) == count


def test_only_processes_of_this_run_are_ended(tmp_path: Path) -> None:
    ours, other, longer = spawn(tmp_path / "a"), spawn(None), spawn(tmp_path / "ab")
    detached = spawn(tmp_path / "a", "setsid sleep 60 & wait")  # the shell and its child
    try:
        settle(tmp_path / "a", 3)
        assert sweep.kill(tmp_path / "a") == 3
        assert ours.wait(5) == -9 and detached.wait(5) == -9
        assert other.poll() is None and longer.poll() is None
        assert sweep.find(tmp_path / "a") == ()
    finally:
        for process in (other, longer):
            process.kill()
            process.wait()


def test_a_child_that_lost_its_mark_is_ended_too(tmp_path: Path) -> None:
    """As SGLang's schedulers do when they set their title."""
    parent = spawn(tmp_path / "a", "env -i /bin/sleep 60 & wait")
    settle(tmp_path / "a", 2)
    assert sweep.kill(tmp_path / "a") == 2
    assert parent.wait(5) == -9


def test_an_orphan_that_lost_its_mark_is_known_by_its_session(tmp_path: Path) -> None:
    """As the router does when supervisord was killed: its title stands where its environment was."""
    run = tmp_path / "a"
    run.mkdir()
    leader = spawn(None, "env -i /bin/sleep 60 & wait")
    sweep.remember_session(run, leader.pid)
    settle(run, 2)
    leader.kill()
    leader.wait()
    settle(run, 1)
    assert sweep.kill(run) == 1
    assert sweep.find(run) == ()


def test_a_session_from_before_the_boot_is_nobody_of_ours(tmp_path: Path) -> None:
    (tmp_path / sweep.SESSIONS).write_text(f"another-boot {os.getsid(0)}\n")
    assert sweep.find(tmp_path) == ()


def test_a_note_that_was_cut_short_is_no_session(tmp_path: Path) -> None:
    (tmp_path / sweep.SESSIONS).write_text("half-a-boot-id")
    assert sweep.find(tmp_path) == ()


def test_notes_of_many_restarts_stay_within_one_block(tmp_path: Path) -> None:
    """A full file system takes what fits into a block that a file has already."""
    first = spawn(None)
    try:
        sweep.remember_session(tmp_path, first.pid)
        for gone in range(4_000_000, 4_000_200):  # above any pid
            sweep.remember_session(tmp_path, gone)
        assert (tmp_path / sweep.SESSIONS).stat().st_size < 200
        assert first.pid in sweep.find(tmp_path)
    finally:
        first.kill()
        first.wait()


def test_we_are_not_our_own_orphan(tmp_path: Path) -> None:
    os.environ[RUN_MARK] = str(tmp_path)
    try:
        assert os.getpid() not in sweep.find(tmp_path)
    finally:
        del os.environ[RUN_MARK]
