"""PathProof: what proves the path, for how long, and what counts as a strike."""

from __future__ import annotations

import pytest
from dsv4_pd.run.guard.canary import Result
from dsv4_pd.run.guard.path_proof import RETRY_S, STRIKE_S, PathProof
from dsv4_pd.run.guard.states import Answer, Observation, RoleView

INTERVAL = 30.0


def seen(now: float, started: float = 10.0) -> Observation:
    def role(name: str) -> RoleView:
        return RoleView(name, True, False, Answer.YES, 0, started, now)

    return Observation(now, (role("prefill"), role("decode")), role("router"))


def proved(at: float = 20.0) -> PathProof:
    path = PathProof(INTERVAL)
    path.on_landed(Result(at, 0.1, passed=True), at, busy=False)
    return path


def test_the_first_canary_flies_at_once_and_the_next_after_the_interval() -> None:
    assert PathProof(INTERVAL).due(seen(11))
    assert not proved(20).due(seen(20 + INTERVAL - 1))
    assert proved(20).due(seen(20 + INTERVAL))


def test_a_younger_process_needs_a_canary_of_its_own() -> None:
    assert proved(20).due(seen(26, started=25))


def test_a_death_takes_the_proof_away() -> None:
    path = proved(20)
    path.forget()
    assert path.view.sent is None
    assert path.due(seen(21))


def test_traffic_beyond_our_own_keeps_the_proof_fresh() -> None:
    path = proved(20)
    path.on_requests(100, 21)
    path.on_own_request()
    path.on_requests(101, 22)
    assert path.view.proved == 20, "that one was ours"
    path.on_requests(102, 23)
    assert path.view.proved == 23
    assert path.view.sent == 20, "when the last canary flew stays as it was"


def test_traffic_alone_proves_nothing() -> None:
    path = PathProof(INTERVAL)
    for total in (1, 5, 9):
        path.on_requests(total, 20 + total)
    assert path.view.proved is None


@pytest.mark.parametrize(
    ("busy", "strike", "failures", "pause"),
    [(False, True, 1, STRIKE_S), (True, True, 0, RETRY_S), (False, False, 0, RETRY_S)],
    ids=["failed", "failed while others were served", "an end said that it is not ready"],
)
def test_what_is_a_strike(busy: bool, strike: bool, failures: int, pause: float) -> None:
    path = proved(20)
    path.on_landed(Result(60, 1.0, strike=strike, failure="link"), 61, busy=busy)
    assert (path.view.failures, path.view.failure) == (failures, "link")
    assert not path.due(seen(61 + pause - 0.1))
    assert path.due(seen(61 + pause))
    path.on_landed(Result(70, 0.1, passed=True), 70, busy=False)
    assert (path.view.failures, path.view.failure) == (0, "")
