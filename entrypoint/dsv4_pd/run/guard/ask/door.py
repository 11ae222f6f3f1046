"""What the guard sees of the front: whether it answers, and whether it is at work while it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from dsv4_pd.plan.guard.config import GuardConfig
from dsv4_pd.run.follow import Follower
from dsv4_pd.run.guard.ask.probes import QUICK, Probes
from dsv4_pd.run.guard.decide.states import Answer
from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.guard.watch.record import Watch

STEADY_S = 1.0  # between two questions to a front that answers
LATE_S = 1.0  # by which a question may overrun its own bound


class Door:
    """The front's record, its probe and its log; `wake` is called when its answer changes."""

    def __init__(self, config: GuardConfig, probes: Probes, wake: Callable[[], None]) -> None:
        self.watch = Watch("front")
        self._url, self._probes, self._wake = config.front_url, probes, wake
        self._follower = Follower(Path(config.front_log)) if config.front_log else None
        self._asked = 0.0
        self._computed: tuple[int, float] = (0, 0.0)  # process, its seconds of processor time

    async def probe(self) -> None:
        """Ask it, often while it does not answer."""
        watch, now = self.watch, time.monotonic()
        if not watch.up or (watch.ready is Answer.YES and now - self._asked < STEADY_S):
            return
        pid, before, self._asked = watch.pid, watch.ready, now
        answer, why = await self._probes.front(self._url)
        ours = time.monotonic() - now > QUICK + LATE_S  # it was we who got no processor
        works = await asyncio.to_thread(self._works, pid)
        if watch.pid != pid:
            return
        if works or ours:
            watch.worked = time.monotonic()
        watch.on_ready(answer, time.monotonic(), why)
        if answer is not before:
            self._wake()

    async def follow(self) -> None:
        """Its log: what it said last explains how it ended."""
        self.read_log()

    def read_log(self) -> None:
        """Every line up to now."""
        while self._follower and (lines := self._follower.lines()):
            self.watch.on_lines(lines, time.monotonic())

    def _works(self, pid: int) -> bool:
        """Whether it computes or wants to: on a starved machine it may get nothing for seconds, and is not stuck."""
        wants, seconds = tree.at_work(pid)
        before, self._computed = self._computed, (pid, seconds)
        return wants or (before[0] == pid and seconds > before[1])
