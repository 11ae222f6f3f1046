"""supervisord as a child process, and the last word on how the run ended."""

from __future__ import annotations

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

from dsv4_pd.plan.environment import child_environment
from dsv4_pd.plan.paths import Paths
from dsv4_pd.run.supervision import rpc, sweep


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the run ended: exit code, one cause line, the last lines of the program that caused it."""

    code: int
    cause: str
    lines: tuple[str, ...] = ()


def read_verdict(path: Path) -> Verdict | None:
    """The guard's verdict, or None while there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return Verdict(int(data["code"]), str(data["cause"]), tuple(data.get("lines", ())))


class Supervisord:
    """One supervisord, in a session of its own so that a terminal's Ctrl-C reaches only us."""

    def __init__(self, paths: Paths, environ: Mapping[str, str]) -> None:
        self._paths = paths
        self._environ = child_environment(environ, paths)
        self._process: subprocess.Popen[bytes] | None = None
        self._said: deque[str] = deque(maxlen=50)

    def start(self) -> None:
        """Start it, and read what it says of itself.

        Not into a file of the run folder: where that is full, a log line that can't be written makes supervisord print
        a traceback, and a traceback that can't be printed ends it.
        """
        self._paths.verdict.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "supervisor.supervisord", "-c", str(self._paths.supervisor_conf)]
        self._process = subprocess.Popen(
            argv,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        threading.Thread(target=_drain, args=(self._process.stdout, self._said), daemon=True).start()
        sweep.remember_session(self._paths.run, self._process.pid)

    @property
    def last_words(self) -> str:
        """Its last line; empty when it said nothing."""
        return self._said[-1] if self._said else ""

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def ask_guard_to_stop(self) -> bool:
        """SIGUSR1 to the guard means: stop the appliance. False when there is no guard to ask."""
        try:
            pid = int(rpc.connect(self._paths.supervisor_socket).getProcessInfo("guard")["pid"])
        except Exception:  # any failure of the RPC means the same: nobody there to ask
            return False
        if not pid:
            return False
        os.kill(pid, signal.SIGUSR1)
        return True

    def end_hard(self) -> None:
        """SIGKILL everything of this run, supervisord first so that it restarts nothing."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        sweep.kill(self._paths.run)


def _drain(pipe: IO[bytes], said: deque[str]) -> None:
    """Until the end of the last process that holds the other end."""
    with pipe:
        for line in pipe:
            said.append(line.decode(errors="replace").rstrip())
