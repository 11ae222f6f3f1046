"""Which failures count: pure functions from what was recorded to the figures of the report.

A well-formed request may fail while the state says that nothing is served, while it was in flight on what died, and
within the documented time that a fault takes to be noticed. Every other failure counts, while DEGRADED as well: it
serves. A fault that no request may notice excuses none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from dsv4_pd.run.states import SERVING

HANG_S = 30.0  # a request that has no end by then hangs, unless a fault that is noticed later than that was at work
END_S = 15.0  # requests in flight end within so long of the moment when the fault was noticed


@dataclass(frozen=True, slots=True)
class Request:
    """One well-formed request, in monotonic seconds. `failure` is empty for the right answer."""

    begun: float
    ended: float
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A fault that was done: when, until when, and the documented bound within which the state tells of it. None: no
    request may notice it.
    """

    begun: float
    undone: float
    bound_s: float | None

    @property
    def noticed(self) -> float:
        """From here on the state must have told of it."""
        return self.begun if self.bound_s is None else self.undone + self.bound_s


def excusing(faults: Sequence[Disturbance]) -> list[Disturbance]:
    """Those that may fail requests."""
    return [fault for fault in faults if fault.bound_s is not None]


class Kind(Enum):
    """Where a request belongs."""

    READY = "while READY or DEGRADED"
    NOT_SERVING = "while not serving"
    IN_FLIGHT = "in flight on what was disturbed"
    DETECTING = "within a fault's detection bound"


@dataclass(slots=True)
class Timeline:
    """The published states, as (monotonic seconds, state) at each change, first one first."""

    changes: list[tuple[float, str]]

    def during(self, begun: float, ended: float) -> set[str]:
        """Every state that was published at some instant between the two.

        >>> sorted(Timeline([(0, "READY"), (5, "RECOVERING"), (9, "READY")]).during(6, 10))
        ['READY', 'RECOVERING']
        """
        before = [state for at, state in self.changes if at <= begun]
        return {*before[-1:], *(state for at, state in self.changes if begun < at <= ended)}

    def outside(self, states: Iterable[str], until: float) -> float:
        """Seconds that none of the states was published."""
        edges = [*self.changes, (until, "")]
        wanted = set(states)
        return sum(after - at for (at, state), (after, _) in pairwise(edges) if state not in wanted)


def kind_of(request: Request, timeline: Timeline, faults: Sequence[Disturbance]) -> Kind:
    """Where one request belongs; what only excuses failures does not move a request that was answered."""
    states = timeline.during(request.begun, request.ended)
    if states - SERVING:
        return Kind.NOT_SERVING
    if request.failure:
        if any(request.begun < fault.begun <= request.ended for fault in excusing(faults)):
            return Kind.IN_FLIGHT
        if any(fault.begun <= request.begun <= fault.noticed for fault in excusing(faults)):
            return Kind.DETECTING
    return Kind.READY


def hangs(request: Request, faults: Sequence[Disturbance]) -> bool:
    """Whether a request took longer than anything that was done to it explains."""
    allowed = HANG_S
    for fault in excusing(faults):
        if fault.begun <= request.ended and request.begun <= fault.noticed:
            allowed = max(allowed, fault.noticed - request.begun + END_S)
    return request.ended - request.begun > allowed


@dataclass(frozen=True, slots=True)
class Sums:
    """Answered and failed requests of each kind."""

    answered: Counter[Kind]
    failed: Counter[Kind]

    @property
    def ready(self) -> int:
        """Well-formed requests counted while READY."""
        return self.answered[Kind.READY] + self.failed[Kind.READY]

    @property
    def failure_rate(self) -> float:
        """Share of those that failed."""
        return self.failed[Kind.READY] / self.ready if self.ready else 1.0


def sums(requests: Iterable[Request], timeline: Timeline, faults: Sequence[Disturbance]) -> Sums:
    """Every request, by kind."""
    found = Sums(Counter(), Counter())
    for request in requests:
        (found.failed if request.failure else found.answered)[kind_of(request, timeline, faults)] += 1
    return found
