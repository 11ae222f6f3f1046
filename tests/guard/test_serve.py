"""Who watches the guard: the real foreground, the real supervisord and the real guard over stub servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from dsv4_pd.plan.disk import run_mark
from dsv4_pd.run.supervision import rpc
from guard.appliance import QUICK, Appliance

PROGRAM = Path(__file__).with_name("foreground.py")
pytestmark = pytest.mark.slow
# A guard that hangs before its first line of ours: its interpreter waits while the file is there.
HANG = "import os, sys, time\nwhile 'guard' in sys.orig_argv and os.path.exists({hang!r}): time.sleep(0.1)\n"


class Served(Appliance):
    """Stub servers below `serve`'s own foreground."""

    def serve(self, *options: str, **popen: object) -> None:
        popen.setdefault("stdout", (self.folder / "console.log").open("ab"))
        popen.setdefault("stderr", subprocess.STDOUT)
        self.process = subprocess.Popen([sys.executable, str(PROGRAM), str(self.folder), *options],
                                        env={**self.environ(), "DSV4_API_KEY": "not-for-children"},
                                        stdin=subprocess.DEVNULL, **popen)  # type: ignore[call-overload]  # fmt: skip

    def said(self) -> str:
        return (self.folder / "console.log").read_text(errors="replace")

    def new_guard(self, old: int, seconds: float = 60) -> float:
        return self.wait(lambda: self.pid("guard") not in (0, old), seconds)

    def finish(self, seconds: float = 60) -> int:
        process = self.process
        assert process is not None
        self.wait(lambda: process.poll() is not None, seconds)
        return int(process.returncode)

    def story(self) -> str:
        return f"console:\n{self.said()[-3000:]}\n{super().story()}"


@contextmanager
def served(folder: Path, *options: str, shm: Path | None = None) -> Iterator[Served]:
    appliance = Served(folder, QUICK)
    if shm:
        appliance.behave("decode", shm=str(shm))
    (folder / "nvml").mkdir()
    (folder / "nvml/sitecustomize.py").write_text(HANG.format(hang=str(folder / "hang")))
    try:
        appliance.serve(*options)
        yield appliance
    finally:
        (folder / "hang").unlink(missing_ok=True)
        appliance.end()


def recovers(appliance: Served) -> None:
    """A death is noticed and made good: somebody guards."""
    starts = appliance.starts("decode")
    appliance.kill("decode")
    appliance.wait(lambda: appliance.starts("decode") == starts + 1)
    appliance.wait_state("READY")
    assert appliance.complete() == 200


def test_a_stopped_guard_is_replaced_and_the_servers_are_left_alone(tmp_path: Path) -> None:
    with served(tmp_path) as appliance:
        appliance.wait_state("READY")
        old = appliance.pid("guard")
        os.kill(old, signal.SIGSTOP)
        assert 10 < appliance.new_guard(old) < 40, "15 s without a heartbeat; more on a busy machine"
        appliance.wait_state("READY")
        assert appliance.starts("prefill") == appliance.starts("decode") == 1
        assert "the guard is stopped" in appliance.said()
        recovers(appliance)


def test_a_pause_of_everything_costs_no_guard(tmp_path: Path) -> None:
    """A frozen container or a suspended machine: the heartbeat is old when it wakes, and nobody could have spoken."""
    with served(tmp_path) as appliance:
        appliance.wait_state("READY")
        guard = appliance.pid("guard")
        assert appliance.process is not None
        for pid in (appliance.process.pid, guard):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(20)
        for pid in (appliance.process.pid, guard):
            os.kill(pid, signal.SIGCONT)
        time.sleep(3)
        assert appliance.pid("guard") == guard
        assert "replaced" not in appliance.said()


def test_a_guard_that_supervisord_gave_up_is_started_again(tmp_path: Path) -> None:
    """Four ends of a young guard within a second each: supervisord calls it FATAL and leaves it."""
    with served(tmp_path) as appliance:
        appliance.wait_state("READY")
        killed: set[int] = set()
        log = tmp_path / "run/log/supervisord.log"
        deadline = time.monotonic() + 40
        while "gave up: guard" not in log.read_text() and time.monotonic() < deadline:
            if (pid := appliance.pid("guard")) and pid not in killed:
                killed.add(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        assert "gave up: guard" in log.read_text()
        appliance.wait(lambda: "(FATAL); it is replaced" in appliance.said(), 20)
        appliance.wait_state("READY")
        recovers(appliance)


def test_a_guard_that_never_comes_up_ends_the_appliance_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "hang").write_text("")
    with served(tmp_path, "YOUNG_S=2", "limit=2") as appliance:
        assert appliance.finish(90) == 1
        last = appliance.said().splitlines()[-1]
        assert "exit 1: the guard does not come up: no heartbeat for" in last
        assert "it was replaced 2 times within 600 s, which did not help" in last
        assert not appliance.leftovers()


@pytest.mark.parametrize("again", [False, True], ids=["stopped", "stopped again and again"])
def test_a_stop_does_not_wait_for_a_stopped_guard(tmp_path: Path, again: bool) -> None:
    with served(tmp_path) as appliance:
        appliance.wait_state("READY")
        os.kill(appliance.pid("guard"), signal.SIGSTOP)
        if again:  # nor for one that can't be woken: the next one hangs before it can hear
            (tmp_path / "hang").write_text("")
            os.kill(appliance.pid("guard"), signal.SIGKILL)
            appliance.wait(lambda: appliance.pid("guard"))
        begun = time.monotonic()
        assert appliance.process is not None
        appliance.process.terminate()
        assert appliance.finish(60) == 0
        assert time.monotonic() - begun < (30 if again else 10)
        assert not appliance.leftovers()


def test_a_stopped_supervisord_is_replaced(tmp_path: Path) -> None:
    with served(tmp_path) as appliance:
        appliance.wait_state("READY")
        daemon = int((tmp_path / "run/supervisord.pid").read_text())
        os.kill(daemon, signal.SIGSTOP)
        appliance.wait(lambda: "its programs are terminated and restarted" in appliance.said(), 120)
        appliance.wait(lambda: appliance.state() != "READY", 5)
        appliance.wait_state("READY")
        assert appliance.starts("decode") == 2
        assert appliance.complete() == 200


def test_a_killed_serve_leaves_nothing(tmp_path: Path) -> None:
    shm = Path(f"/dev/shm/dsv4-serve-{os.getpid()}-killed")
    with served(tmp_path, shm=shm) as appliance:
        appliance.wait_state("READY")
        appliance.wait(lambda: str(shm) in str(appliance.health().get("memory")))
        assert appliance.process is not None
        appliance.process.kill()
        appliance.wait(lambda: not appliance.leftovers(), 20)
        appliance.wait(lambda: not shm.exists(), 10)


def test_what_a_killed_run_left_is_ended_at_the_next_start(tmp_path: Path) -> None:
    """`serve`, supervisord and guard at once: nobody could clean up."""
    shm = Path(f"/dev/shm/dsv4-serve-{os.getpid()}-orphans")
    with served(tmp_path, shm=shm) as appliance:
        appliance.wait_state("READY")
        assert shm.exists()
        orphans = [appliance.pid("prefill"), appliance.pid("decode")]
        assert appliance.process is not None
        guard, daemon = appliance.pid("guard"), int((tmp_path / "run/supervisord.pid").read_text())
        os.kill(guard, signal.SIGSTOP)
        for pid in (appliance.process.pid, daemon, guard):
            os.kill(pid, signal.SIGKILL)
        appliance.process.wait()
        time.sleep(0.5)
        assert all(Path(f"/proc/{pid}").exists() for pid in orphans)
        mark = run_mark.current(tmp_path / "run")
        appliance.serve()
        appliance.wait(lambda: run_mark.current(tmp_path / "run") != mark)
        assert not any(Path(f"/proc/{pid}/exe").exists() for pid in orphans)
        assert not shm.exists()
        appliance.behave("decode")
        appliance.wait_state("READY")


def test_whatever_ends_serve_ends_everything(tmp_path: Path) -> None:
    with served(tmp_path, "loop=OSError") as appliance:
        appliance.wait_state("READY")
        assert appliance.process is not None
        appliance.process.terminate()
        assert appliance.finish() == 1
        assert (
            "exit 1: a defect in serve: OSError: [Errno 28] No space left on device (foreground.py:" in appliance.said()
        )
        assert "Traceback" not in appliance.said()
        assert not appliance.leftovers()


def test_a_diagnostic_that_fails_ends_nothing(tmp_path: Path) -> None:
    with served(tmp_path, "link=OSError", "console=OSError") as appliance:
        appliance.wait_state("READY")
        appliance.wait(lambda: "KV link: not tested: OSError" in appliance.said(), 10)
        assert appliance.said().count("the console failed: OSError") == 1
        assert "Traceback" not in appliance.said()
        assert appliance.process is not None and appliance.process.poll() is None
        appliance.process.terminate()
        assert appliance.finish() == 0


@pytest.mark.parametrize("how", ["closed", "full", "never there", "no room"])
def test_an_output_that_nobody_reads_ends_nothing(tmp_path: Path, how: str) -> None:
    appliance = Served(tmp_path, QUICK)
    reading, writing = os.pipe()
    (tmp_path / "console.log").write_text("")
    try:
        if how == "full":
            os.set_blocking(writing, False)
            with suppress(BlockingIOError):
                while os.write(writing, b"x" * 4096):
                    pass
            os.set_blocking(writing, True)
        elif how == "closed":
            os.close(reading)
        elif how == "no room":  # a file on a full disk, where a pipe of Docker's was
            os.close(writing)
            writing = os.open("/dev/full", os.O_WRONLY)
        start = None if how != "never there" else lambda: os.close(1)
        appliance.serve("SILENT_S=4", stdout=writing, stderr=(tmp_path / "err").open("wb"), preexec_fn=start)
        os.close(writing)
        appliance.wait_state("READY")
        old = appliance.pid("guard")
        os.kill(old, signal.SIGSTOP)
        appliance.new_guard(old, 60)
        assert appliance.process is not None
        appliance.process.terminate()
        assert appliance.finish(30) == 0
        assert (tmp_path / "err").read_text() == ""
        assert not appliance.leftovers()
    finally:
        if how != "closed":
            os.close(reading)
        appliance.end()


def test_children_get_a_mark_and_no_setting_of_ours(tmp_path: Path) -> None:
    with served(tmp_path) as appliance:
        appliance.wait_state("READY")
        mark = run_mark.current(tmp_path / "run")
        pids = {name: appliance.pid(name) for name in ("guard", "prefill", "decode", "router")}
        for name, pid in pids.items():
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ours = [word for word in environment if word.upper().startswith(b"DSV4_")]
            assert ours == [f"DSV4_RUN_MARK={mark}".encode()], name
        assert rpc.Waiting(Path(appliance.config.socket)).process("guard").state == "RUNNING"
