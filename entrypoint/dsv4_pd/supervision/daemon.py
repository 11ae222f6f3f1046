"""supervisord as a child process, and the last word on how the run ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dsv4_pd.paths import Paths
from dsv4_pd.settings import FOREIGN
from dsv4_pd.supervision import rpc, sweep


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


def child_environment(environ: Mapping[str, str], paths: Paths) -> dict[str, str]:
    """What every child inherits: the operator's variables without our own settings, which may hold secrets."""
    kept = {k: v for k, v in environ.items() if not k.upper().startswith("DSV4_") or k in FOREIGN}
    return kept | {sweep.MARK: str(paths.run)}


class Supervisord:
    """One supervisord, in a session of its own so that a terminal's Ctrl-C reaches only us."""

    def __init__(self, paths: Paths, environ: Mapping[str, str]) -> None:
        self._paths = paths
        self._environ = child_environment(environ, paths)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its own output is only about itself and goes to its log."""
        self._paths.verdict.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "supervisor.supervisord", "-c", str(self._paths.supervisor_conf)]
        out = os.open(self._paths.logs / "supervisord.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._process = subprocess.Popen(
                argv,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        finally:
            os.close(out)
        sweep.remember_session(self._paths.run, self._process.pid)

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
