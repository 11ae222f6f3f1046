"""Who watches the guard: `serve` does. A guard that is silent or given up is replaced; a stuck supervisord is named."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import xmlrpc.client
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsv4_pd.run.supervision import rpc
from dsv4_pd.run.supervision.silence import Look, Silence, main_thread

SILENT_S = 15.0  # the guard beats every second
YOUNG_S = 30.0  # until the first beat of a new guard: it has to be loaded from a disk that may be slow
STOPPING_S = 4.0  # once a stop was asked for: docker kills ten seconds later
DAEMON_S = 30.0  # replacing supervisord costs a reload of both servers
_LOOK_S, _ASK_S = 0.5, 2.0
_ENDS, _ENDS_WINDOW_S = 10, 300.0
_GIVEN_UP = frozenset({"FATAL", "UNKNOWN", "STOPPED", "EXITED"})


@dataclass(frozen=True, slots=True)
class Budget:
    """How often the guard may be replaced within a window before the appliance ends."""

    limit: int
    window: float


class GuardWatch:
    """Looks at the guard's heartbeat and at supervisord's list. Call `tick` often; it looks twice a second."""

    def __init__(self, socket: Path, health: Path, budget: Budget, say: Callable[[str], None]) -> None:
        self._socket, self._health, self._budget, self._say = socket, health, budget, say
        self._replaced: list[float] = []
        self._stopping = False
        self.restarted(0)

    def restarted(self, daemon: int) -> None:
        """supervisord was restarted, with this pid."""
        self._daemon = daemon
        self._guard, self._supervisord = Silence(), Silence()
        self._pid, self._known, self._down, self._answers = 0, 0, 0, 0
        self._ends: list[float] = []
        self._look_at = self._ask_at = 0.0

    def stopping(self) -> None:
        """From now on a silent guard keeps the stop waiting; its replacement is not counted."""
        self._stopping = True

    @property
    def hung_daemon(self) -> bool:
        """Whether supervisord has not answered for so long that it must be ended."""
        return self._supervisord.seconds >= DAEMON_S

    @property
    def beating(self) -> bool:
        """Whether there is a guard that gives signs of life."""
        return bool(self._pid) and not self._guard.young and self._guard.seconds < STOPPING_S

    @property
    def replaced(self) -> int:
        """How often the guard was replaced within the window."""
        return len(self._replaced)

    def tick(self, now: float | None = None) -> str | None:
        """Look; act; the cause once replacing it did not help."""
        now = time.monotonic() if now is None else now
        if now < self._look_at:
            return None
        self._look_at = now + _LOOK_S
        down = self._ask(now)
        state, cpu = main_thread(self._pid) if self._pid else ("", 0.0)
        self._guard = self._guard.then(Look(now, self._pid, self._beat(), state, cpu))
        self._supervisord = self._supervisord.then(self._daemon_look(now))
        if len(self._ends) > _ENDS:
            return f"the guard ended {len(self._ends)} times within {_ENDS_WINDOW_S:.0f} s"
        if down:
            return self._replace(f"was given up by supervisord ({down})", now, self._start)
        if self._guard.seconds >= self._bound():
            how = "is stopped" if state == "T" else "hangs" if not self._guard.young else "does not come up"
            return self._replace(f"{how}: no heartbeat for {self._guard.seconds:.0f} s", now, self._kill)
        return None

    def _bound(self) -> float:
        if self._stopping:
            return STOPPING_S
        return YOUNG_S if self._guard.young else SILENT_S

    def _ask(self, now: float) -> str:
        """Ask supervisord for the guard, every two seconds; the state in which it has given the guard up, if it has."""
        if now < self._ask_at:
            return ""
        self._ask_at = now + _ASK_S
        try:
            found = rpc.Waiting(self._socket).process("guard")
        except rpc.UNREACHABLE:
            return ""
        except xmlrpc.client.Fault:
            self._answers += 1
            return ""  # it is shutting down
        self._answers += 1
        self._on_pid(found.pid, now)
        state = found.state
        self._down = self._down + 1 if state in _GIVEN_UP else 0
        # Between its end and its next start a program is EXITED for a moment; FATAL is for good.
        return state if state == "FATAL" or self._down > 1 else ""

    def _on_pid(self, pid: int, now: float) -> None:
        """One that comes up and dies again and again is never given up by supervisord, and guards nothing."""
        self._ends = [at for at in self._ends if now - at < _ENDS_WINDOW_S]
        if self._known and pid != self._known and pid:
            self._ends.append(now)
        self._pid, self._known = pid, pid or self._known

    def _daemon_look(self, now: float) -> Look:
        state, cpu = main_thread(self._daemon) if self._daemon else ("", 0.0)
        return Look(now, self._daemon, self._answers, state, cpu)

    def _beat(self) -> object:
        """Changes whenever the guard publishes, be the file readable or not: on a full disk it is written in place."""
        try:
            found = self._health.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _replace(self, why: str, now: float, act: Callable[[], bool]) -> str | None:
        self._guard, self._down, self._ask_at = Silence(), 0, 0.0
        self._replaced = [at for at in self._replaced if now - at < self._budget.window]
        if len(self._replaced) >= self._budget.limit and not self._stopping:
            times = f"{len(self._replaced)} times within {self._budget.window:.0f} s"
            return f"the guard {why}; it was replaced {times}, which did not help"
        if act():
            self._replaced.append(now)
            self._say(f"the guard {why}; it is replaced ({len(self._replaced)} of {self._budget.limit})")
        return None

    def _kill(self) -> bool:
        """End it with what it started; supervisord starts the next one."""
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)
        return True

    def _start(self) -> bool:
        try:
            rpc.Waiting(self._socket).start("guard")
        except rpc.FAILURES:
            return False  # it runs by now, or supervisord is shutting down
        return True
