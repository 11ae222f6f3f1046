"""When the path from client to decode was last proved: by canaries, and between them by real traffic."""

from __future__ import annotations

from dataclasses import replace

from dsv4_pd.run.guard.canary import Result
from dsv4_pd.run.guard.states import CanaryView, Observation

STRIKE_S = 3.0  # between a canary that failed and the next: two in a row must not be one hiccup
RETRY_S = 0.5


class PathProof:
    """A mutable record that canaries and counters write, read as a `CanaryView`. Times are monotonic seconds."""

    def __init__(self, interval: float) -> None:
        self.view = CanaryView()
        self.result: Result | None = None
        self._interval = interval
        self._not_before = 0.0
        self._own = 0  # requests that the guard itself sent since the last look at the counter
        self._requests: float | None = None

    def forget(self) -> None:
        """A process died: nothing is proved any more."""
        self.view, self._not_before = CanaryView(), 0.0

    def on_own_request(self) -> None:
        """The guard sends a request of its own, which proves nothing when it is counted."""
        self._own += 1

    def on_requests(self, total: float, now: float) -> None:
        """Requests that decode finished, beyond our own, refresh a proof; only a canary can give the first one."""
        before, self._requests = self._requests, total
        own, self._own = self._own, 0
        if before is not None and total - before > own and self.view.sent is not None:
            self.view = CanaryView(self.view.sent, now)

    def due(self, seen: Observation) -> bool:
        """Whether a canary is to fly now, over ends that are all ready."""
        if seen.now < self._not_before:
            return False
        newest = max(role.started for role in seen.roles)
        if self.view.failures or self.view.sent is None or self.view.sent < newest:
            return True
        return self.view.proved is None or seen.now - self.view.proved >= self._interval

    def on_landed(self, result: Result, now: float, *, busy: bool) -> None:
        """A canary came back, or did not; a failure is no strike while others' requests were computed."""
        self.result = result
        if result.passed:
            self.view = CanaryView(result.sent, now)
        elif result.strike and not busy:
            self.view = replace(self.view, failures=self.view.failures + 1, failure=result.failure)
            self._not_before = now + STRIKE_S
        else:
            self.view = replace(self.view, failure=result.failure)
            self._not_before = now + RETRY_S
