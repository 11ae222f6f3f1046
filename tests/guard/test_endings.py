"""How a child ended, and whether a compiler runs: read of real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.run.guard.watch import compilers, endings, tree
from dsv4_pd.run.guard.watch.processes import Processes
from dsv4_pd.run.guard.watch.record import Watch
from supervisor.options import decode_wait_status

# Set as SGLang does (setproctitle writes both the command line and the kernel's name of the main thread).
NAMED = "import ctypes, os, sys, time; ctypes.CDLL(None).prctl(15, sys.argv[1].encode()); print(flush=True); {}"


@contextmanager
def child(name: str, code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", NAMED.format(code), name], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("name", "code", "number", "words"),
    [
        ("sglang::scheduler_TP0", "time.sleep(60)", signal.SIGKILL, "its scheduler was ended by SIGKILL"),
        ("sglang::scheduler", "time.sleep(60)", signal.SIGSEGV, "its scheduler was ended by SIGSEGV"),
        ("sglang::detokenizer", "time.sleep(60)", signal.SIGABRT, "its detokenizer was ended by SIGABRT"),
        ("sglang::scheduler", "os._exit(3)", None, "its scheduler exited with code 3"),
    ],
)
def test_a_dead_child_s_signal_is_named(name: str, code: str, number: signal.Signals | None, words: str) -> None:
    with child(name, code) as process:
        found = endings.name_of(process.pid)
        if number:
            process.send_signal(number)
        wait(lambda: zombie(process.pid))
        assert endings.of_worker(process.pid, found).partition(" (")[0] == words


ENDED = [
    ("exit status 3; not expected", "exited with code 3"),
    ("exit status 127; not expected", "exited with code 127 (its program is not there)"),
    ("exit status 135; not expected", "exited with code 135, which is SIGBUS (memory behind a file"),
    ("terminated by SIGSEGV (core dumped); not expected", "was ended by SIGSEGV (core dumped) (a crash in native code"),
    ("terminated by SIGKILL; not expected", "was ended by SIGKILL (by the kernel when memory ran out"),
    ("terminated by SIGUSR1; not expected", "was ended by SIGUSR1"),
    ("terminated by signal 64; not expected", "was ended by SIGRTMAX"),
]


@pytest.mark.parametrize(("told", "words"), ENDED)
def test_supervisord_s_line_becomes_numbers_and_then_words(told: str, words: str) -> None:
    lines = ("decode (exit status 0; expected)", f"decode ({told})", "front (exit status 9)")
    log = "\n".join(f"INFO exited: {line}" for line in lines)
    ending = endings.last_of(log, "decode")
    assert ending is not None and endings.in_words(ending).startswith(words)
    assert endings.last_of(log, "prefill") is None


@pytest.mark.parametrize("status", [3 << 8, 9, 11 | 0x80, 64])
def test_supervisord_s_line_is_what_supervisord_writes(status: int) -> None:
    """Its own function makes the words, so that a new version that words them otherwise is seen."""
    _, words = decode_wait_status(status)
    assert endings.last_of(f"exited: decode ({words}; not expected)", "decode") == endings.of_status(status)


def test_a_process_of_which_supervisord_says_minus_one_was_ended_by_a_signal() -> None:
    assert decode_wait_status(9)[0] == -1
    assert endings.in_words(endings.Ending(code=-1)) == "was ended by a signal"


@pytest.mark.parametrize("ending", [endings.Ending(code=code) for code in (3, 126, 139)]
                         + [endings.Ending(signal=number) for number in (7, 9, 11)])  # fmt: skip
def test_rewording_an_ending_changes_no_guess(monkeypatch: pytest.MonkeyPatch, ending: endings.Ending) -> None:
    """The cause comes of the numbers: other words around it leave it as it is."""
    cause, words = endings.likely(ending), endings.in_words(ending)
    assert (cause is None) == (ending.code == 3) and words.endswith(f"({cause})" if cause else "code 3")
    for table in (endings.LIKELY_OF_SIGNAL, endings.LIKELY_OF_CODE):
        for key in table:
            monkeypatch.setitem(table, key, "reworded, with code 135")  # type: ignore[misc]
    assert endings.in_words(ending) == words.replace(str(cause), "reworded, with code 135")


def test_a_child_whose_parent_was_faster_is_named_without_a_signal() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert endings.of_worker(process.pid, "scheduler") == "its scheduler ended"
    assert endings.name_of(process.pid) == "scheduler or detokenizer"


def test_a_lost_scheduler_is_told_with_its_signal() -> None:
    """From the process's end to the record that policy reads."""
    watch, told = Watch("decode"), list[Any]()
    watch.on_event("RUNNING", 1.0, os.getpid())
    processes = Processes(None, {"decode": watch}, told.append)  # type: ignore[arg-type]
    with child("sglang::scheduler", "time.sleep(60)") as process:
        process.kill()
        wait(lambda: zombie(process.pid))
        processes._worker_ended(watch, os.getpid(), process.pid, "scheduler")
    assert watch.view().lost.startswith("its scheduler was ended by SIGKILL (by the kernel when memory ran out")
    assert told == [""]


def test_a_child_of_an_earlier_process_is_not_lost() -> None:
    watch = Watch("decode")
    watch.on_event("RUNNING", 1.0, 7)
    Processes(None, {"decode": watch}, lambda _: None)._worker_ended(watch, 6, 999, "scheduler")  # type: ignore[arg-type]
    assert watch.view().lost == ""


@pytest.mark.parametrize(("name", "found"), [("cicc", True), ("nvcc", True), ("python3", False), ("ninja", False)])
def test_a_compiler_is_found_among_a_server_s_processes(tmp_path: Path, name: str, found: bool) -> None:
    sleeper = shutil.which("sleep")
    assert sleeper
    shutil.copy(sleeper, tmp_path / name)  # the kernel names a process by its file
    shell = subprocess.Popen(["sh", "-c", f"{tmp_path / name} 60; true"], start_new_session=True)
    beside = subprocess.Popen([sleeper, "60"], start_new_session=True)
    try:
        wait(lambda: len(Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()) == 1)
        wait(lambda: compilers.run(shell.pid) is found)
        assert not compilers.run(beside.pid)
    finally:
        for process in (shell, beside):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


NINJA = """rule compile
  command = {compiler} 60
build out: compile
"""


@pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not installed; .ci/run installs it")
def test_a_compiler_that_ninja_starts_is_found(tmp_path: Path) -> None:
    """In a process group of its own. A server for which FlashInfer's ninja compiled was restarted as one that hangs."""
    shutil.copy(shutil.which("sleep") or "/bin/sleep", tmp_path / "cicc")
    (tmp_path / "build.ninja").write_text(NINJA.format(compiler=tmp_path / "cicc"))
    code = "import subprocess; subprocess.run(['ninja'])"
    server = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    who = frozenset({server.pid})
    try:
        wait(lambda: compilers.run(server.pid))
        who = tree.members(server.pid)
        assert len({tree.group_of(pid) for pid in who}) > 1
        assert tree.work_of(server.pid)[0] == who
    finally:
        tree.kill(who)
        server.wait()


def test_a_compiler_that_has_ended_is_none(tmp_path: Path) -> None:
    program = tmp_path / "cicc"
    shutil.copy(shutil.which("true") or "/bin/true", program)
    leader = subprocess.Popen([str(program)], start_new_session=True)
    wait(lambda: zombie(leader.pid))
    assert not compilers.run(leader.pid)
    leader.wait()
