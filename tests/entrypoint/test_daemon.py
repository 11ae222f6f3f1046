"""A real supervisord where there is no room left for what it writes."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dsv4_pd.plan.disk import run_mark
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.programs.environment import child_environment
from dsv4_pd.run.console.outlet import Outlet
from dsv4_pd.run.supervision import rpc, sweep
from dsv4_pd.run.supervision.daemon import Supervisord
from dsv4_pd.run.supervision.guard_watch import Budget, GuardWatch
from dsv4_pd.run.supervision.silence import Look, Silence, main_thread
from dsv4_pd.settings.schema import FOREIGN, names

CONFIG = """\
[supervisord]
nodaemon=true
silent=true
logfile={run}/log/supervisord.log
pidfile={run}/supervisord.pid
childlogdir={run}/log

[unix_http_server]
file={run}/supervisor.sock

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[program:talker]
command={python} -uc "import time, itertools; [(print('x' * 999), time.sleep(0.001)) for _ in itertools.count()]"
redirect_stderr=true
stdout_logfile={run}/log/talker.log
stdout_logfile_maxbytes=100MB
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run folder on a file system of its own."""
    folder = tmp_path / "run"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "full", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_supervisord_outlives_a_full_run_folder(run: Path, tmp_path: Path) -> None:
    paths = Paths(run=run, state=tmp_path, cache=tmp_path, temp=tmp_path)
    paths.logs.mkdir()
    paths.supervisor_conf.write_text(CONFIG.format(run=run, python=sys.executable))
    daemon = Supervisord(paths, os.environ)
    daemon.start()
    try:
        deadline = time.monotonic() + 20
        while shutil.disk_usage(run).free and time.monotonic() < deadline:
            assert daemon.poll() is None
            time.sleep(0.05)
        assert not shutil.disk_usage(run).free, "the talker fills it"
        time.sleep(3)
        assert daemon.poll() is None, daemon.last_words
        assert rpc.Waiting(paths.supervisor_socket).process("talker").state == "RUNNING"
        # It says so at each write that fails; in between, its last line is one inside a traceback.
        deadline = time.monotonic() + 20
        while "No space left" not in daemon.last_words and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "No space left" in daemon.last_words
    finally:
        daemon.end_hard()


def test_what_it_says_of_itself_is_kept(tmp_path: Path) -> None:
    (tmp_path / "run" / "log").mkdir(parents=True)
    paths = Paths(run=tmp_path / "run", state=tmp_path, cache=tmp_path, temp=tmp_path)
    daemon = Supervisord(paths, os.environ)
    daemon.start()  # with no configuration
    deadline = time.monotonic() + 20
    while (daemon.poll() is None or not daemon.last_words) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "supervisord" in daemon.last_words


def test_no_setting_of_ours_reaches_a_child(tmp_path: Path) -> None:
    """The key among them: `ps e` and crash reports show an environment. Read from a real child's."""
    given = {name: f"secret-{name}" for name in (*names(), "DSV4_NEW", "dsv4_api_key")} | {"HF_TOKEN": "theirs"}
    environment = child_environment({**given, **dict.fromkeys(FOREIGN, "1")}, "m")
    assert environment == {"HF_TOKEN": "theirs", "DSV4_RUN_MARK": "m", **dict.fromkeys(FOREIGN, "1")}
    paths = Paths(run=tmp_path / "run", state=tmp_path, cache=tmp_path, temp=tmp_path)
    paths.logs.mkdir(parents=True)
    paths.supervisor_conf.write_text(CONFIG.format(run=paths.run, python=sys.executable))
    run_mark.begin(paths.run)
    daemon = Supervisord(paths, {**os.environ, **given})
    daemon.start()
    try:
        deadline, pid = time.monotonic() + 20, 0
        while not pid and time.monotonic() < deadline:
            time.sleep(0.05)
            with contextlib.suppress(*rpc.UNREACHABLE):
                pid = rpc.Waiting(paths.supervisor_socket).process("talker").pid
        for child in (daemon.pid, pid):
            text = b""
            while not text and time.monotonic() < deadline:  # empty while the child takes up its own program
                text = Path(f"/proc/{child}/environ").read_bytes()
            assert b"secret-" not in text and b"HF_TOKEN=theirs" in text
            assert f"DSV4_RUN_MARK={run_mark.current(paths.run)}".encode() in text.split(b"\0")
    finally:
        daemon.end_hard()


def test_supervisord_ends_with_its_parent(tmp_path: Path) -> None:
    """However that ended: no signal handler runs at a SIGKILL."""
    paths = Paths(run=tmp_path / "run", state=tmp_path, cache=tmp_path, temp=tmp_path)
    paths.logs.mkdir(parents=True)
    paths.supervisor_conf.write_text(CONFIG.format(run=paths.run, python=sys.executable))
    code = f"""
import os, sys, time
from pathlib import Path
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.run.supervision.daemon import Supervisord
from dsv4_pd.run.supervision.guard_watch import Budget, GuardWatch
here = Path({str(tmp_path)!r})
daemon = Supervisord(Paths(run=here / "run", state=here, cache=here, temp=here), os.environ)
daemon.start()
print(daemon.pid, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout
        daemon = Path("/proc") / parent.stdout.readline().strip() / "exe"
        deadline = time.monotonic() + 20
        while not (paths.run / "supervisord.pid").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert os.path.lexists(daemon)
        parent.kill()
        parent.wait()
        while os.path.lexists(daemon) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not os.path.lexists(daemon)
    finally:
        parent.kill()
        sweep.kill(paths.run)


def test_a_supervisord_that_is_stopped_does_not_stop_who_asks(tmp_path: Path) -> None:
    """A socket that nobody answers at."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        begun = time.monotonic()
        with pytest.raises(rpc.UNREACHABLE):
            rpc.Waiting(tmp_path / "s").process("guard")
        assert time.monotonic() - begun < 10


# --- silence --------------------------------------------------------------------------------------------------------


def total(*looks: Look) -> float:
    found = Silence()
    for look in looks:
        found = found.then(look)
    return found.seconds


def test_silence_is_the_time_in_which_it_could_have_spoken() -> None:
    every = [Look(at / 2, 7, "a") for at in range(21)]
    assert total(*every) == 10.0
    assert total(*every, Look(10.5, 7, "b")) == 0.0, "a beat"
    assert total(*every, Look(10.5, 8, "a")) == 0.0, "another process"
    assert total(Look(0, 7, "a"), Look(3600, 7, "a")) == 2.5, "we were paused, or the machine was suspended"
    assert total(Look(10, 7, "a"), Look(5, 7, "a")) == 0.0, "no clock runs backwards"


def test_a_starved_process_is_not_a_silent_one() -> None:
    wants = [Look(at / 2, 7, "a", "R", cpu=at / 100) for at in range(41)]
    assert total(*wants) == 0.0, "it wants a CPU and gets a fiftieth of one"
    assert total(*[Look(at / 2, 7, "a", "R", cpu=at / 2) for at in range(41)]) == 20.0, "it runs in circles"
    assert total(*[Look(at / 2, 7, "a", "T", cpu=0) for at in range(41)]) == 20.0, "it is stopped"
    assert total(*[Look(at / 2, 7, "a", "D", cpu=0) for at in range(41)]) == 20.0, "it hangs in the kernel"


def test_the_kernel_tells_how_a_process_is() -> None:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(1)
        state, cpu = main_thread(process.pid)
        assert state == "R" and cpu > 0
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        state, stopped = main_thread(process.pid)
        assert state == "T" and main_thread(process.pid)[1] == stopped
    finally:
        process.kill()
        process.wait()
    assert main_thread(process.pid) == ("", 0.0)


# --- the watch's budget ---------------------------------------------------------------------------------------------


class Told:
    """supervisord as its RPC tells; what is asked of it is noted."""

    def __init__(self) -> None:
        self.pid, self.state, self.started = 4_100_000, "RUNNING", 0  # above any pid

    def process(self, name: str) -> rpc.Process:
        return rpc.Process(name, self.state, self.pid, 0)

    def start(self, _: str) -> None:
        self.started += 1


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()
    monkeypatch.setattr(rpc, "Waiting", lambda _: found)
    return found


def watched(folder: Path, said: list[str], limit: int = 2) -> GuardWatch:
    return GuardWatch(folder / "socket", folder / "health.json", Budget(limit, 600.0), said.append)


def test_a_guard_that_comes_back_and_dies_again_and_again_ends_the_appliance(told: Told, tmp_path: Path) -> None:
    """supervisord restarts it each time and never gives it up."""
    watch = watched(tmp_path, [])
    causes = []
    for number in range(12):
        told.pid = 4_100_000 + number
        causes.append(watch.tick(now=3.0 * number))
    assert causes[:11] == [None] * 11
    assert causes[11] == "the guard ended 11 times within 300 s"


def test_deaths_that_are_far_apart_end_nothing(told: Told, tmp_path: Path) -> None:
    watch = watched(tmp_path, [])
    for number in range(50):
        told.pid = 4_100_000 + number
        assert watch.tick(now=60.0 * number) is None


def test_replacements_are_counted_within_the_window(told: Told, tmp_path: Path) -> None:
    said: list[str] = []
    watch = watched(tmp_path, said)
    told.state, told.pid = "FATAL", 0
    assert [watch.tick(now) for now in (0.0, 3.0)] == [None, None]
    assert told.started == len(said) == 2
    cause = str(watch.tick(6.0))
    assert "given up by supervisord (FATAL); it was replaced 2 times within 600 s" in cause and told.started == 2
    assert watch.tick(700.0) is None, "the window has passed"
    assert told.started == 3


def test_a_program_between_two_starts_is_not_given_up(told: Told, tmp_path: Path) -> None:
    watch = watched(tmp_path, [])
    for now, state in ((0.0, "EXITED"), (3.0, "RUNNING"), (6.0, "BACKOFF"), (9.0, "EXITED"), (12.0, "STARTING")):
        told.state = state
        assert watch.tick(now) is None
    assert told.started == 0
    told.state = "EXITED"
    assert [watch.tick(now) for now in (15.0, 18.0)] == [None, None]
    assert told.started == 1


# --- what was inherited ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((512, 1024), 1024),
        ((1024, 524288), 65536),
        ((1024, 4096), 4096),
        ((1 << 20, 1 << 20), 1 << 20),
        ((1 << 30, 1 << 30), 1 << 20),
    ],
)
def test_children_get_a_sane_limit_of_open_files(given: tuple[int, int], wanted: int) -> None:
    if given[1] > resource.getrlimit(resource.RLIMIT_NOFILE)[1] and not may_raise(given[1]):
        pytest.skip(f"may not raise the hard limit to {given[1]}")
    code = "import subprocess; from dsv4_pd.run.supervision import inherited; inherited.repair(); " \
        "subprocess.run(['sh', '-c', 'ulimit -Sn; ulimit -Hn'])"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, given))  # fmt: skip
    assert done.stdout.split() == [str(wanted), str(given[1])]


def may_raise(hard: int) -> bool:
    code = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({hard}, {hard}))"
    return not subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode


# --- output that nobody reads ---------------------------------------------------------------------------------------


def test_output_never_waits_and_never_raises() -> None:
    reading, writing = os.pipe()
    out = Outlet(writing)
    begun = time.monotonic()
    for number in range(20_000):
        print(f"line {number} " + "x" * 80, file=out)
    assert time.monotonic() - begun < 10
    with os.fdopen(reading, "rb") as pipe:
        os.set_blocking(reading, False)
        got = b""
        while b"are missing here" not in got:
            print("more", file=out)
            time.sleep(0.001)
            got += pipe.read() or b""
            assert time.monotonic() - begun < 60
    deadline = time.monotonic() + 20
    while not out.broken and time.monotonic() < deadline:  # the pipe is closed by now
        print("\N{BOX DRAWINGS LIGHT HORIZONTAL}", file=out)
        time.sleep(0.01)
    assert out.broken
    os.close(writing)


def test_an_encoding_that_lacks_a_sign_is_no_reason_to_end() -> None:
    reading, writing = os.pipe()
    out = Outlet(writing, "ascii")
    print("\N{BOX DRAWINGS LIGHT HORIZONTAL}", file=out)
    out.drain(10)
    assert os.read(reading, 100) == b"\\u2500\n"
    os.close(reading)
    os.close(writing)
