"""The sweep against real processes: it ends ours, in whatever session they hide, and nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dsv4_pd.plan.disk import run_mark
from dsv4_pd.plan.disk.run_mark import RUN_MARK
from dsv4_pd.run.supervision import family, sweep


def spawn(run: Path | None, script: str = "exec sleep 60") -> subprocess.Popen[bytes]:
    """A process of the run in this folder; of nobody's when there is none."""
    env = {"PATH": "/usr/bin:/bin"} | ({RUN_MARK: mark_of(run)} if run else {})
    return subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True)


def mark_of(run: Path) -> str:
    run.mkdir(exist_ok=True)
    return run_mark.current(run) or sweep.begin(run)


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
    run_mark.write_lines(tmp_path / sweep.SESSIONS, [f"another-boot {os.getsid(0)} 1"])
    assert sweep.find(tmp_path) == ()


def test_a_session_of_another_pid_namespace_is_nobody_of_ours(tmp_path: Path) -> None:
    """A container that was restarted: the numbers begin again, the boot is the same."""
    leader = spawn(None)
    try:
        (tmp_path / "a").mkdir()
        sweep.remember_session(tmp_path / "a", leader.pid)
        assert sweep.find(tmp_path / "a") == (leader.pid,)
        path = tmp_path / "a" / sweep.SESSIONS
        path.write_text(path.read_text().replace("pid:[", "pid:[9"))
        assert sweep.find(tmp_path / "a") == ()
    finally:
        leader.kill()
        leader.wait()


def test_a_note_that_was_cut_short_is_no_session(tmp_path: Path) -> None:
    run_mark.write_lines(tmp_path / sweep.SESSIONS, ["half-a-boot-id"])
    run_mark.write_lines(tmp_path / run_mark.MARKS, [run_mark.boot_id()])
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
    people = family.everyone()
    me = os.getpid()
    sessions = {people[me].session: people.get(people[me].session, people[me]).started}
    assert me not in family.ours(people, ("m",), sessions, me)
    assert me in family.ours(people, ("m",), sessions, 1)


def test_a_run_that_was_killed_is_known_by_the_mark_it_left(tmp_path: Path) -> None:
    """`serve` is gone with its memory; the next one in the folder begins with a mark of its own."""
    orphan = spawn(tmp_path / "a")
    settle(tmp_path / "a", 1)
    first = run_mark.current(tmp_path / "a")
    assert sweep.kill(tmp_path / "a") == 1
    assert orphan.wait(5) == -9
    assert sweep.begin(tmp_path / "a") != first
    assert run_mark.known(tmp_path / "a") == (run_mark.current(tmp_path / "a"),)


def test_a_process_that_does_not_go_stays_known(tmp_path: Path) -> None:
    orphan = spawn(tmp_path / "a")
    try:
        settle(tmp_path / "a", 1)
        sweep.begin(tmp_path / "a")
        assert len(run_mark.known(tmp_path / "a")) == 2
        assert sweep.find(tmp_path / "a") == (orphan.pid,)
    finally:
        orphan.kill()
        orphan.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mount namespaces")
def test_two_appliances_that_share_a_pid_namespace_leave_each_other_alone(tmp_path: Path) -> None:
    """pid: host, and both containers call their run folder /run/dsv4-pd."""
    (tmp_path / "run").mkdir()
    script = "mount -t tmpfs own run && exec python3 -c 'import sys; exec(sys.argv[1])' \"$0\""
    code = f"""
import os, subprocess, sys, time
sys.path[:0] = {sys.path!r}
from pathlib import Path
from dsv4_pd.plan.disk import run_mark
from dsv4_pd.run.supervision import sweep
run = Path({str(tmp_path / "run")!r})
child = subprocess.Popen(["sleep", "60"], env={{"PATH": os.environ["PATH"], run_mark.RUN_MARK: sweep.begin(run)}},
                         start_new_session=True)
sweep.remember_session(run, child.pid)
print(child.pid, flush=True)
for line in sys.stdin:
    print(sweep.kill(run) if "kill" in line else child.poll(), flush=True)
"""
    made = [
        subprocess.Popen(["unshare", "-m", "sh", "-c", script.replace("python3", sys.executable), code], cwd=tmp_path,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]  # fmt: skip
    try:
        if not all(ask(process) for process in made):
            pytest.skip("may not make a mount namespace here")
        assert ask(made[0], "kill") == "1"
        assert ask(made[1], "alive?") == "None"
        assert ask(made[1], "kill") == "1"
    finally:
        for process in made:
            process.kill()
            process.wait()


def ask(process: subprocess.Popen[str], question: str = "") -> str:
    assert process.stdin and process.stdout
    if question:
        print(question, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def test_a_session_number_that_was_given_away_is_not_ours() -> None:
    """Its leader is another process than the one that was noted."""
    people = {7: family.Process(1, 7, 7, started=500), 8: family.Process(1, 8, 7, started=501)}
    assert family.ours(people, (), {7: 500}, me=1) == {7, 8}
    assert family.ours(people, (), {7: 400}, me=1) == frozenset()
    del people[7]  # the leader has ended: while somebody is in its session, its number is not given away
    assert family.ours(people, (), {7: 400}, me=1) == {8}


def test_shared_memory_goes_with_the_processes(tmp_path: Path) -> None:
    name = Path(f"/dev/shm/dsv4-sweep-{os.getpid()}")
    noted, strange = name.with_name(name.name + "-noted"), tmp_path / "not-in-shm"
    for path in (name, noted, strange):
        path.write_bytes(b"x" * 4096)
    code = f"import mmap, time; f = open('{name}', 'r+b'); m = mmap.mmap(f.fileno(), 0); print('up', flush=True)"
    code += "; time.sleep(60)"
    env = {RUN_MARK: mark_of(tmp_path / "a")}
    (tmp_path / "a" / "health.json").write_text(
        json.dumps({"memory": {"shared_memory": {"decode": [str(noted), str(strange), "/dev/shm/../x"]}}})
    )
    user = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
    try:
        assert user.stdout and user.stdout.readline() == b"up\n"
        assert sweep.kill(tmp_path / "a") == 1
        assert (name.exists(), noted.exists(), strange.exists()) == (False, False, True)
    finally:
        user.kill()
        user.wait()
        for path in (name, noted):
            path.unlink(missing_ok=True)
