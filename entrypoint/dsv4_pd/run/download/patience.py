"""What passes is tried again, until nothing new has come for the stall's time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from dsv4_pd.run.download import classify
from dsv4_pd.run.download.causes import Asked, Failed
from dsv4_pd.run.download.progress import LONGEST_WAIT_S, Progress

TICK_S = 0.5
_WAITS_S = (1.0, 2.0, 5.0, 10.0, 30.0)  # between tries while nothing comes
T = TypeVar("T")


class Stopped(BaseException):
    """Somebody asked for the end: no error, and nothing that catches errors takes it for one."""


class Patience:
    """One for all threads of a job; each of them may be told to end."""

    def __init__(self, asked: Asked, stall_s: float, progress: Progress) -> None:
        self._asked, self._stall_s, self._progress = asked, stall_s, progress
        self._stop = threading.Event()

    def stop(self) -> None:
        """End soon."""
        self._stop.set()

    def checkpoint(self) -> None:
        """
        Raises:
            Stopped: by `stop`.
        """
        if self._stop.is_set():
            raise Stopped

    def pause(self, seconds: float = TICK_S) -> None:
        """
        Raises:
            Stopped: by `stop`.
        """
        if self._stop.wait(seconds):
            raise Stopped

    def again(self, act: Callable[[], T]) -> T:
        """Do it until it works.

        Raises:
            Failed: with the cause. Stopped: by `stop`.
        """
        tries, before = 0, 0
        while True:
            try:
                return act()
            except Exception as error:
                failed = classify.of(error, self._asked)
                if not failed.again:
                    raise failed from error
            done = self._progress.snapshot().fetched
            tries, before = (0 if done > before else tries + 1), done
            self._wait(failed, tries)

    def _wait(self, failed: Failed, tries: int) -> None:
        """Until the next try. A wait that the Hub asked for is no stall, within reason."""
        seconds = _WAITS_S[min(tries, len(_WAITS_S) - 1)] if failed.wait_s is None else failed.wait_s + 1
        seconds = min(seconds, LONGEST_WAIT_S)
        words = f"{self._asked.short(failed)}; the next try is in {seconds:.0f} s"
        self._progress.say(words, excused_s=0.0 if failed.wait_s is None else seconds)
        waited = 0.0
        while waited < seconds:
            if self._progress.still_s > self._stall_s:
                raise Failed(failed.cause, failed.detail, stalled_s=self._stall_s)
            self.pause(min(TICK_S, seconds - waited))
            waited += TICK_S
