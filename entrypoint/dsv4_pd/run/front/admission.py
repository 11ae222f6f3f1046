"""How many answers are made at once, exactly, and who waits: one queue, first come first served.

A slot is one answer in decode, so a request for four answers takes four. What a client that left held or waited for is
free in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dsv4_pd.run.front.errors import Refusal

MEASURED = 64  # ends that the rate is taken from
LATELY_S = 60.0  # older ends are of another load
MOST_RETRY_S = 60


@dataclass(eq=False, slots=True)
class _Waiter:
    slots: int
    turn: asyncio.Future[None]


class Admission:
    """`limit`: slots; `queue`: requests that may wait; `bound`: seconds that one waits."""

    def __init__(self, limit: int, queue: int, bound: float) -> None:
        self.limit, self.queue, self.bound = limit, queue, bound
        self.used = 0
        self.waiting: deque[_Waiter] = deque()
        self._ends: deque[float] = deque(maxlen=MEASURED)

    @asynccontextmanager
    async def slots(self, wanted: int, *, waits: bool = True) -> AsyncIterator[None]:
        """Hold slots for as long as the block runs; raises Refusal where the queue is full or too slow, and at once for
        one that does not wait.
        """
        taken = min(max(wanted, 1), self.limit)  # the engine refuses what no limit could hold
        await self._enter(taken, waits)
        try:
            yield
        finally:
            self._leave(taken)

    async def _enter(self, slots: int, waits: bool) -> None:
        if not self.waiting and self.used + slots <= self.limit:
            self.used += slots
            return
        if not waits or len(self.waiting) >= self.queue:
            full = f"{self.used} of {self.limit} slots are taken and {len(self.waiting)} requests wait"
            raise Refusal(429, f"Too many requests: {full}", retry_after=self.retry_after())
        waiter = _Waiter(slots, asyncio.get_running_loop().create_future())
        self.waiting.append(waiter)
        try:
            async with asyncio.timeout(self.bound):
                await waiter.turn
        except TimeoutError:
            self._forget(waiter)
            words = f"No slot became free within {self.bound:.0f} s ({len(self.waiting)} requests wait)"
            raise Refusal(503, words, code="queue_timeout", retry_after=self.retry_after()) from None
        except asyncio.CancelledError:  # the client has gone
            self._forget(waiter)
            raise

    def _forget(self, waiter: _Waiter) -> None:
        """One that waits no longer; its turn may have come in the same moment."""
        if waiter.turn.done() and not waiter.turn.cancelled():
            self._leave(waiter.slots)
            return
        if waiter in self.waiting:
            self.waiting.remove(waiter)
        self._call()

    def _leave(self, slots: int) -> None:
        self.used -= slots
        self._ends.extend([time.monotonic()] * slots)
        self._call()

    def _call(self) -> None:
        """Whoever is first and fits; one that has just been cancelled has not taken itself out yet."""
        while self.waiting:
            first = self.waiting[0]
            if not first.turn.done():
                if self.used + first.slots > self.limit:
                    return
                self.used += first.slots
                first.turn.set_result(None)
            self.waiting.popleft()

    def retry_after(self) -> int:
        """Seconds until a newcomer's turn, by the rate at which slots became free lately; 1 to 60."""
        ahead = sum(waiter.slots for waiter in self.waiting) + 1
        return retry_after(list(self._ends), ahead, time.monotonic())


def retry_after(ends: list[float], ahead: int, now: float) -> int:
    """Seconds for `ahead` slots at the rate of the ends of the last minute, whole and between 1 and 60.

    >>> retry_after([0.0, 1.0, 2.0, 3.0], 10, 4.0), retry_after([], 3, 4.0), retry_after([3.9, 4.0], 1, 4.0)
    (10, 10, 1)

    What was before a quiet hour says nothing of the rate now:

    >>> retry_after([0.0] * 24 + [3600 + number / 10 for number in range(40)], 5, 3604.0)
    1
    """
    lately = [end for end in ends if now - end <= LATELY_S]
    if len(lately) < 2:
        return 10  # nothing has ended, so nothing is known
    rate = len(lately) / max(now - lately[0], 0.001)
    return max(1, min(MOST_RETRY_S, math.ceil(ahead / rate)))
