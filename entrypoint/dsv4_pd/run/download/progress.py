"""How far a download is: counted by many threads, read by whoever shows it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_WINDOW_S = 20.0  # over which the rate is taken
LONGEST_WAIT_S = 3600.0  # that the Hub may ask for, or all its waits together while nothing comes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading. Bytes; rate in bytes per second; seconds left None while unknown."""

    phase: str  # "asking", "waiting", "fetching", "checking", "linking"
    total: int | None
    fetched: int  # what lies on the disk by now
    checked: int  # what was compared with its hash
    rate: float
    note: str = ""

    @property
    def percent(self) -> float | None:
        """Of the present phase."""
        done = self.checked if self.phase == "checking" else self.fetched
        return None if not self.total else min(100.0, 100.0 * done / self.total)

    @property
    def left_s(self) -> float | None:
        """Seconds until the phase is through, at the present rate."""
        done = self.checked if self.phase == "checking" else self.fetched
        return None if self.total is None or self.rate <= 0 else max(0.0, (self.total - done) / self.rate)

    def words(self) -> str:
        """For a log line.

        >>> Snapshot("fetching", 160 * 10**9, 40 * 10**9, 0, 4e8).words()
        'fetching the model: 25.0 %, 40.0 of 160.0 GB, 400 MB/s, 5 min left'
        """
        verb = {"asking": "asking the Hub for the model", "waiting": "another process fetches the model",
                "linking": "the model's files are put in place"}.get(self.phase, f"{self.phase} the model")  # fmt: skip
        parts = [verb]
        if self.percent is not None and self.total is not None:
            done = self.checked if self.phase == "checking" else self.fetched
            unit, name = (1e9, "GB") if self.total >= 1e9 else (1e6, "MB")
            amount = f"{self.percent:.1f} %, {done / unit:.1f} of {self.total / unit:.1f} {name}"
            moving = [f"{self.rate / 1e6:.3g} MB/s"] if self.rate else []
            left = [f"{clock(self.left_s)} left"] if self.left_s is not None and self.percent < 100 else []
            parts = [f"{verb}: {', '.join([amount, *moving, *left])}"]
        return " – ".join([*parts, *filter(None, [self.note])])

    def document(self) -> dict[str, Any]:
        """Plain values for /status and its readers."""
        return {
            "phase": self.phase,
            "percent": None if self.percent is None else round(self.percent, 2),
            "total_bytes": self.total,
            "done_bytes": self.fetched,
            "checked_bytes": self.checked,
            "bytes_per_s": round(self.rate, 1),
            "eta_s": None if self.left_s is None else round(self.left_s, 1),
            "note": self.note or None,
        }


def clock(seconds: float) -> str:
    """
    >>> clock(5), clock(300), clock(5400)
    ('5 s', '5 min', '1.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def rate_of(readings: Sequence[tuple[float, int]]) -> float:
    """Bytes per second over (moment, bytes) readings, oldest first.

    >>> rate_of([(0.0, 0), (2.0, 100)]), rate_of([(1.0, 5)])
    (50.0, 0.0)
    """
    if len(readings) < 2 or readings[-1][0] <= readings[0][0]:
        return 0.0
    return max(0.0, (readings[-1][1] - readings[0][1]) / (readings[-1][0] - readings[0][0]))


class Progress:
    """The counters of one download, and since when nothing moved."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._phase, self._note = "asking", ""
        self._total: int | None = None
        self._fetched = self._checked = self._present = 0
        self._readings: deque[tuple[float, int]] = deque()
        self._came = self._excused = self._now()

    def enter(self, phase: str) -> None:
        """A new phase; its rate is its own."""
        with self._lock:
            if phase != self._phase:
                self._phase = phase
                self._readings.clear()
            self._move()

    def expect(self, total: int, present: int) -> None:
        """What has to be there in the end, and what is there by now."""
        with self._lock:
            self._total, self._fetched, self._checked = total, present, 0
            self._readings.clear()

    def fetched(self, count: int, *, new: bool = True) -> None:
        """Bytes that arrived; negative: bytes that have to be fetched again. `new`: they were never here before."""
        with self._lock:
            self._fetched += count
            if count > 0 and new:
                self._move()
                self._note = ""

    def checked(self, count: int) -> None:
        """Bytes that were compared with their hash."""
        with self._lock:
            self._checked += count
            self._move()

    def report(self, total: int | None, fetched: int, checked: int) -> None:
        """Figures of another process that does the work."""
        with self._lock:
            if (fetched, checked) != (self._fetched, self._checked):
                self._move()
            self._total, self._fetched, self._checked = total, fetched, checked

    def say(self, note: str, excused_s: float = 0.0) -> None:
        """What is in the way. `excused_s`: a wait that the Hub asked for, which is no stall while it is bounded."""
        with self._lock:
            self._note = note
            if excused_s:
                self._excused = max(self._excused, min(self._now() + excused_s, self._came + LONGEST_WAIT_S))

    def _move(self) -> None:
        self._came = self._now()

    @property
    def still_s(self) -> float:
        """Seconds without progress."""
        with self._lock:
            return max(0.0, self._now() - max(self._came, self._excused))

    def snapshot(self) -> Snapshot:
        """One reading; also what the rate is computed from."""
        with self._lock:
            done = self._checked if self._phase == "checking" else self._fetched
            self._readings.append((self._now(), done))
            while len(self._readings) > 2 and self._readings[0][0] < self._now() - _WINDOW_S:
                self._readings.popleft()
            rate = rate_of(tuple(self._readings))
            return Snapshot(self._phase, self._total, self._fetched, self._checked, rate, self._note)


class Tally:
    """What is here of one file, told to the progress of all; what comes a second time is no progress."""

    def __init__(self, progress: Progress, here: int) -> None:
        self._progress = progress
        self._here = self._most = here

    def __call__(self, size: int) -> None:
        """So many bytes of the file are here now."""
        self._progress.fetched(size - self._here, new=size > self._most)
        self._here, self._most = size, max(size, self._most)
