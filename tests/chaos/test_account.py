"""What counts as a failure while READY, and what does not."""

from __future__ import annotations

import pytest

from chaos.account import Disturbance, Kind, Request, Timeline, hangs, kind_of, sums

# READY, a fault at 10 that is noticed at 12, recovery until 40
TIMELINE = Timeline([(0.0, "READY"), (12.0, "RECOVERING"), (40.0, "READY"), (60.0, "DEGRADED"), (61.0, "READY")])
FAULTS = (Disturbance(10.0, 10.0, 2.0),)


@pytest.mark.parametrize(
    ("begun", "ended", "failure", "kind"),
    [
        (1.0, 2.0, "", Kind.READY),
        (1.0, 2.0, "503", Kind.READY),  # nothing was wrong: this one counts
        (9.0, 11.0, "stream cut", Kind.IN_FLIGHT),
        (9.0, 11.0, "", Kind.READY),  # an answer is an answer
        (10.5, 11.5, "502", Kind.DETECTING),
        (11.0, 13.0, "502", Kind.NOT_SERVING),
        (20.0, 21.0, "503", Kind.NOT_SERVING),
        (39.0, 41.0, "", Kind.NOT_SERVING),
        (41.0, 42.0, "503", Kind.READY),  # READY again, and lying
        (60.5, 60.7, "500", Kind.DEGRADED),
    ],
)
def test_kinds(begun: float, ended: float, failure: str, kind: Kind) -> None:
    assert kind_of(Request(begun, ended, failure), TIMELINE, FAULTS) is kind


def test_a_state_that_is_late_excuses_nothing_beyond_the_bound() -> None:
    lying = Timeline([(0.0, "READY")])
    assert kind_of(Request(11.9, 12.0, "502"), lying, FAULTS) is Kind.DETECTING
    assert kind_of(Request(12.1, 12.2, "502"), lying, FAULTS) is Kind.READY


@pytest.mark.parametrize(
    ("begun", "ended", "hung"),
    [(0.0, 8.0, False), (50.0, 79.0, False), (50.0, 81.0, True), (5.0, 26.0, False), (11.0, 45.0, True)],
)
def test_hanging(begun: float, ended: float, hung: bool) -> None:
    assert hangs(Request(begun, ended, "x"), FAULTS) is hung


def test_a_fault_that_is_noticed_late_lets_requests_wait_for_it() -> None:
    cut = Disturbance(10.0, 100.0, 70.0)
    assert not hangs(Request(20.0, 180.0, "503"), (cut,))
    assert hangs(Request(20.0, 186.0, "503"), (cut,))


def test_the_rate_is_of_requests_while_ready() -> None:
    asked = [Request(1.0, 2.0)] * 999 + [Request(1.0, 2.0, "503")] + [Request(20.0, 21.0, "503")] * 500
    found = sums(asked, TIMELINE, FAULTS)
    assert (found.ready, found.failure_rate, found.failed[Kind.NOT_SERVING]) == (1000, 0.001, 500)


def test_no_request_is_no_success() -> None:
    assert sums([], TIMELINE, FAULTS).failure_rate == 1.0


def test_time_outside_the_states() -> None:
    assert TIMELINE.outside({"READY"}, 70.0) == pytest.approx(29.0)
