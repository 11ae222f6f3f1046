"""supervisord as a child process, and the last word on how the run ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dsv4_pd.plan.disk import run_mark
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.programs.environment import child_environment
from dsv4_pd.run.supervision import rpc, sweep

TIED = str(Path(__file__).with_name("tied.py"))  # a child that ends with us


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How the run ended: exit code, one cause line, the last lines of the program that caused it."""

    code: int
    cause: str
    lines: tuple[str, ...] = ()


def read_verdict(path: Path) -> RunEnd | None:
    """The guard's verdict, or None while there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return RunEnd(int(data["code"]), str(data["cause"]), tuple(map(str, data.get("lines", ()))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none yet, or cut short on a full disk
        return None


class Supervisord:
    """One supervisord, in a session of its own so that a terminal's Ctrl-C reaches only us."""

    def __init__(self, paths: Paths, environ: Mapping[str, str]) -> None:
        self._paths = paths
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=50)

    def start(self) -> None:
        """Start it, and read what it says of itself.

        Not into a file of the run folder: where that is full, a log line that can't be written makes supervisord print
        a traceback, and a traceback that can't be printed ends it.
        """
        self._paths.verdict.unlink(missing_ok=True)
        argv = [sys.executable, TIED, "supervisor.supervisord", str(os.getpid())]
        self._process = subprocess.Popen(
            [*argv, "-c", str(self._paths.supervisor_conf)],
            env=child_environment(self._environ, run_mark.current(self._paths.run)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        threading.Thread(target=drain, args=(self._process.stdout, self._said), daemon=True).start()
        with contextlib.suppress(OSError):  # a run folder without room: the mark finds most of them
            sweep.remember_session(self._paths.run, self._process.pid)

    @property
    def last_words(self) -> str:
        """Its last line; empty when it said nothing."""
        return self._said[-1] if self._said else ""

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        assert self._process is not None
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Its process; 0 before there is one."""
        return self._process.pid if self._process is not None else 0

    def ask_guard_to_stop(self) -> bool:
        """SIGUSR1 to the guard means: stop the appliance. False when there is no guard to ask.

        SIGCONT goes with it, and to supervisord first: one that was stopped would never hear.
        """
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGCONT)
        try:
            pid = rpc.Waiting(self._paths.supervisor_socket).process("guard").pid
            if pid:
                os.kill(pid, signal.SIGUSR1)
                os.kill(pid, signal.SIGCONT)
        except rpc.FAILURES:  # all mean the same: nobody there to ask
            return False
        return bool(pid)

    def kill(self) -> None:
        """End supervisord alone, at once; whoever looks at `poll` next restarts it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def end_hard(self) -> None:
        """SIGKILL everything of this run, supervisord first so that it restarts nothing."""
        self.kill()
        sweep.kill(self._paths.run)


def drain(pipe: IO[bytes], said: deque[str]) -> None:
    """Until the end of the last process that holds the other end."""
    with pipe:
        for line in pipe:
            said.append(line.decode(errors="replace").rstrip())
