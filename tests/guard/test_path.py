"""PathProof: what proves the path, for how long, and what counts as a confirmed failure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dsv4_pd.run.guard.decide.states import Answer, Complaint, Observation, Remedy, RoleView
from dsv4_pd.run.guard.prove.canary import CanaryResult
from dsv4_pd.run.guard.prove.path_proof import ASKED_S, CONFIRMED_S, QUEUED_S, RETRY_S, PathProof

INTERVAL = 30.0
ROLE = Remedy.RESTART_ROLE


def seen(now: float, started: float = 10.0) -> Observation:
    def role(name: str) -> RoleView:
        return RoleView(name, True, False, Answer.YES, 0, started, now)

    return Observation(now, (role("prefill"), role("decode")), role("router"))


def proved(at: float = 20.0) -> PathProof:
    path = PathProof(INTERVAL)
    path.on_result(CanaryResult(at, 0.1, passed=True), at, busy=False)
    return path


def test_the_first_canary_is_sent_at_once_and_the_next_after_the_interval() -> None:
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


def test_a_canary_is_sent_in_its_time_whatever_the_traffic() -> None:
    """An answer that began before the link went proves nothing about it now."""
    path = proved(20)
    path.on_first_tokens(1, 20)
    for second in range(21, 80):
        path.on_first_tokens(float(second), second)
    assert path.due(seen(20 + INTERVAL))


def test_answers_beyond_our_own_keep_the_proof_fresh() -> None:
    path = proved(20)
    path.on_first_tokens(100, 21)
    path.on_sent(21.5)
    path.on_first_tokens(100, 21.6)
    path.on_first_tokens(101, 22)
    assert path.view.proved == 20, "that one was ours, though it was counted a sample later"
    path.on_first_tokens(102, 23)
    assert path.view.proved == 23
    assert path.view.sent == 20, "the time of the last canary stays as it was"


def test_a_canary_that_is_counted_long_after_it_was_given_up_is_still_ours() -> None:
    path = proved(20)
    path.on_first_tokens(100, 21)
    path.on_sent(50)
    path.on_result(CanaryResult(50, 10, confirmed=True, failure="link", unanswered=True), 60, busy=False)
    for at in range(60, 90):
        path.on_first_tokens(100, at)
    path.on_first_tokens(101, 90)
    assert (path.view.proved, path.view.failures) == (20, 1)


def test_only_a_canary_clears_what_a_canary_found() -> None:
    path = proved(20)
    path.on_first_tokens(100, 21)
    path.on_result(CanaryResult(50, 10, confirmed=True, failure="link"), 60, busy=False)
    path.on_first_tokens(140, 61)
    assert (path.view.failures, path.view.failure, path.view.proved) == (1, "link", 61)
    path.on_result(CanaryResult(64, 10, confirmed=True, failure="link"), 74, busy=False)
    assert path.view.failures == 2
    path.on_result(CanaryResult(80, 0.1, passed=True), 80, busy=False)
    assert path.view.failures == 0


def test_a_confirmed_failure_is_followed_up_at_once_and_not_at_the_next_interval() -> None:
    path = proved(20)
    path.on_sent(25)  # a fatal line asked for it
    path.on_result(CanaryResult(25, 1, confirmed=True, failure="link"), 26, busy=False)
    assert path.due(seen(26 + CONFIRMED_S))
    assert 26 + CONFIRMED_S < 20 + INTERVAL


def test_a_restarted_decode_counts_from_zero() -> None:
    path = proved(20)
    path.on_first_tokens(100, 21)
    path.on_sent(22)
    path.on_first_tokens(0, 30)
    path.on_first_tokens(1, 31)
    assert path.view.proved == 31


def test_traffic_alone_proves_nothing() -> None:
    path = PathProof(INTERVAL)
    for total in (1, 5, 9):
        path.on_first_tokens(total, 20 + total)
    assert path.view.proved is None


def test_a_fatal_line_asks_for_a_canary_once() -> None:
    path = proved(20)
    path.on_sent(20)
    view = seen(26)
    logged = replace(view, servers=(view.servers[0], replace(view.servers[1], complaint=Complaint(ROLE, "x", at=25))))
    assert not path.due(view)
    assert path.due(logged)
    path.on_sent(26)
    path.on_result(CanaryResult(26, 0.1, passed=True), 26, busy=False)
    assert not path.due(replace(logged, now=40))
    again = replace(view.servers[1], complaint=Complaint(ROLE, "x", at=27))
    assert not path.due(replace(logged, now=30, servers=(view.servers[0], again))), "a flood of lines is one canary"
    assert path.due(replace(logged, now=26 + ASKED_S, servers=(view.servers[0], again)))


def test_while_answers_come_through_a_queued_canary_is_not_sent_again_at_once() -> None:
    path = proved(20)
    path.on_first_tokens(1, 50)
    path.on_first_tokens(9, 55)
    path.on_result(CanaryResult(56, 0.1, queued=True), 56, busy=True)
    assert not path.due(seen(56 + QUEUED_S - 0.1))
    assert path.due(seen(56 + QUEUED_S))


@pytest.mark.parametrize(
    ("busy", "confirmed", "failures", "pause"),
    [(False, True, 1, CONFIRMED_S), (True, True, 0, RETRY_S), (False, False, 0, RETRY_S)],
    ids=["failed", "failed while others were served", "an end said that it is not ready"],
)
def test_what_is_a_confirmed_failure(busy: bool, confirmed: bool, failures: int, pause: float) -> None:
    path = proved(20)
    path.on_result(CanaryResult(60, 1.0, confirmed=confirmed, failure="link"), 61, busy=busy)
    assert (path.view.failures, path.view.failure) == (failures, "link")
    assert not path.due(seen(61 + pause - 0.1))
    assert path.due(seen(61 + pause))
    path.on_result(CanaryResult(70, 0.1, passed=True), 70, busy=False)
    assert (path.view.failures, path.view.failure) == (0, "")
