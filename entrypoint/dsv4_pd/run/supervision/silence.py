"""How long a process has been silent although it could have spoken. Pure.

Counted in looks, not read off a clock: time in which we ourselves did not run (paused, suspended, starved) counts for
at most one look, and time in which the process wanted a CPU and got none does not count at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LOOK_MAX_S = 2.5  # the most that the time between two looks counts: half a second, and a question that timed out
_TICKS = 100.0  # USER_HZ, which is 100 on every Linux that user space sees


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a process."""

    now: float  # monotonic seconds
    pid: int  # 0: there is none
    beat: object  # changes with each sign of life
    state: str = "S"  # of its main thread: R runs or waits for a CPU, T is stopped, ...
    cpu: float = 0.0  # seconds that its main thread has run


@dataclass(frozen=True, slots=True)
class Silence:
    """What the looks add up to. `young`: this process has given no sign of life yet."""

    last: Look | None = None
    seconds: float = 0.0
    young: bool = True

    def then(self, look: Look) -> Silence:
        """After one more look.

        >>> first = Silence().then(Look(0.0, 7, "a"))
        >>> first.then(Look(0.5, 7, "a")).seconds, first.then(Look(900.0, 7, "a")).seconds
        (0.5, 2.5)
        """
        last = self.last
        if last is None or look.pid != last.pid or not look.pid:
            return Silence(look)
        if look.beat != last.beat:
            return Silence(look, 0.0, young=False)
        passed = max(0.0, look.now - last.now)
        counted = 0.0 if _starved(last, look, passed) else min(passed, LOOK_MAX_S)
        return Silence(look, self.seconds + counted, self.young)


def _starved(last: Look, look: Look, passed: float) -> bool:
    """Whether it wanted to run and mostly could not: one that hangs in a loop runs all the time, one that is stopped
    or waits does not want to.
    """
    return last.state == look.state == "R" and look.cpu - last.cpu < passed / 2


def main_thread(pid: int, proc: Path = Path("/proc")) -> tuple[str, float]:
    """(state, CPU seconds) of a process's main thread; ("", 0.0) when it is gone."""
    try:
        text = (proc / str(pid) / "task" / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0.0
    fields = text.rpartition(")")[2].split()
    return fields[0], (int(fields[11]) + int(fields[12])) / _TICKS
