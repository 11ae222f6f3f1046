"""When the path from client to decode was last proved: by canaries, and between them by answers to clients."""

from __future__ import annotations

from dataclasses import replace

from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.states import CanaryView, Observation
from dsv4_pd.run.guard.prove.canary import CanaryResult

CONFIRMED_S = 3.0  # between a canary that failed and the next: two in a row must not be one hiccup
RETRY_S = 0.5
QUEUED_S = 5.0  # the same while answers to clients come through: one more request in their queue proves nothing new
ASKED_S = 5.0  # between canaries that fatal log lines ask for


class PathProof:
    """A mutable record that canaries and counters write, read as a `CanaryView`. Times are monotonic seconds."""

    def __init__(self, interval: float, members: tuple[str, ...] = ()) -> None:
        """`members`: of the one route that it is about; none: the router's way."""
        self.members = members
        self.view = CanaryView()
        self.result: CanaryResult | None = None
        self._interval = interval
        self._not_before = 0.0
        self._sent = 0.0  # the last canary, whatever became of it
        self._own = 0.0  # canaries that decode has yet to count, if it ever does
        self._answered: float | None = None

    def forget(self) -> None:
        """A process died: nothing is proved any more."""
        self.view, self._not_before = CanaryView(), 0.0

    def on_sent(self, now: float) -> None:
        """A canary is sent; when decode counts it, it proves nothing about others."""
        self._own += 1
        self._sent = now

    def on_other(self) -> None:
        """Another canary of ours is sent past it; when it is counted, it proves nothing about clients either."""
        self._own += 1

    def on_first_tokens(self, total: float, now: float) -> None:
        """Answers that decode began to give, beyond our own, refresh a proof. They never give the first one, and never
        clear what a canary found.
        """
        before, self._answered = self._answered, total
        if before is None or total < before:  # another decode counts
            self._own = 0.0
            return
        others = total - before - self._own
        self._own = max(0.0, -others)
        if others > 0 and self.view.sent is not None:
            self.view = replace(self.view, proved=now)

    def on_crossed(self, total: float, now: float) -> None:
        """Of a member of several hosts, which sends nothing itself: what crossed it was a router's."""
        before, self._answered = self._answered, total
        if before is not None and total > before:
            self.view = replace(self.view, proved=now)

    def due(self, seen: Observation) -> bool:
        """Whether a canary is due now, over programs that can serve: traffic never takes its place."""
        if seen.now < self._not_before:
            return False
        newest = conditions.proved_since(seen, self.members)
        if self.view.failures or self.view.sent is None or self.view.sent < newest:
            return True
        return seen.now - self.view.sent >= self._interval or self._asked_for(seen)

    def _asked_for(self, seen: Observation) -> bool:
        """Whether a server logged a fatal line since the last canary."""
        logged = any(
            role.complaint and role.complaint.at > self._sent
            for role in seen.servers
            if not self.members or role.name in self.members
        )
        return logged and seen.now - self._sent >= ASKED_S

    def on_result(self, result: CanaryResult, now: float, *, busy: bool) -> None:
        """A canary's result; a failure is not confirmed while others came through, or while all only queue."""
        self.result = result
        if result.passed:
            self.view = CanaryView(result.sent, now)
        elif result.confirmed and not busy:
            self.view = replace(self.view, failures=self.view.failures + 1, failure=result.failure)
            self._not_before = now + CONFIRMED_S
        else:
            self.view = replace(self.view, failure=result.failure)
            fresh = self.view.proved is not None and now - self.view.proved < self._interval
            self._not_before = now + (QUEUED_S if fresh else RETRY_S)
