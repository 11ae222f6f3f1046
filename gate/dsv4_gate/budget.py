"""A grammar that takes its time costs its own request only: the scheduler ends it, and serves the others.

What can be seen of a grammar beforehand is refused at the door (languages.py). What cannot grows slowly: each token
takes a little longer than the one before. The matcher's time is counted here for each request, and one that has used
up its second is ended, by the engine's own way for requests that took too long: the first rank decides, all follow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

FREE_S = 0.010  # of each call: a mask for 128,000 tokens takes 0.0003 s, rarely a few milliseconds
MOST_S = 1.0  # processor time of one request beyond that
SPENT = "dsv4_gate_spent_s"
WORDS = (
    "the grammar of this request takes too long to follow: one text fits it in too many ways; write it unambiguously"
)


@dataclass(slots=True)
class Meter:
    """Counts processor time of this thread, so that a busy machine is not held against a grammar."""

    clock: Callable[[], float] = time.thread_time
    over: bool = field(default=False)  # some grammar has used up its time

    def timed(self, original: Callable[..., Any], grammar: Any, *arguments: Any, **named: Any) -> Any:
        """A call of the matcher, on the grammar's account."""
        started = self.clock()
        try:
            return original(grammar, *arguments, **named)
        finally:
            if (beyond := self.clock() - started - FREE_S) > 0:
                setattr(grammar, SPENT, getattr(grammar, SPENT, 0.0) + beyond)
                self.over = self.over or spent(grammar) > MOST_S

    def late(self, requests: Iterable[Any]) -> list[str]:
        """Ids of the requests whose grammar has used up its time."""
        if not self.over:
            return []
        self.over = False
        return sorted(request.rid for request in requests if spent(request.grammar) > MOST_S and not request.finished())


def spent(grammar: Any) -> float:
    """Seconds on a grammar's account; the engine may have wrapped it for a model that thinks."""
    return max(getattr(grammar, SPENT, 0.0), getattr(getattr(grammar, "grammar", None), SPENT, 0.0))
