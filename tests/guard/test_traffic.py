"""Traffic: when a canary that failed was only behind others."""

from __future__ import annotations

from dsv4_pd.run.guard.ask.traffic import Traffic

FIRST, FAILED = "sglang:time_to_first_token_seconds_count", "sglang:num_transfer_failed_reqs_total"
ABORTED, HANDING = "sglang:num_aborted_requests_total", "sglang:num_prefill_inflight_queue_reqs"


def sampled(*samples: tuple[float, dict[str, float], dict[str, float]]) -> Traffic:
    """Samples of prefill and decode at these times, after one of zeroes."""
    traffic = Traffic()
    for at, prefill, decode in ((0.0, {}, {}), *samples):
        traffic.on_sample("prefill", prefill, at, first=True, last=False)
        traffic.on_sample("decode", decode, at, first=False, last=True)
    return traffic


def test_first_tokens_of_others_show_that_requests_cross_for_a_moment() -> None:
    traffic = sampled((10.0, {}, {FIRST: 3.0}))
    assert traffic.came_through(14.0)
    assert not traffic.came_through(16.0), "what crossed then shows nothing of now"


def test_what_an_engine_counts_from_before_the_guard_s_start_is_no_news() -> None:
    traffic = Traffic()
    traffic.on_sample("decode", {FIRST: 900.0}, 10.0, first=False, last=True)
    assert not traffic.came_through(10.0)
    traffic.on_sample("decode", {FIRST: 2.0}, 12.0, first=False, last=True)  # restarted
    assert not traffic.came_through(12.0)


def test_finished_requests_of_prefill_show_nothing_of_the_link() -> None:
    assert not sampled((10.0, {FIRST: 5.0, "sglang:num_requests_total": 9.0}, {})).came_through(10.0)


def test_a_long_prompt_before_it_is_a_queue() -> None:
    traffic = sampled((12.0, {HANDING: 0.0}, {}), (14.0, {HANDING: 0.0}, {}))
    assert traffic.only_queued(11.0, moves=2)
    assert not traffic.only_queued(11.0, moves=1), "the canary alone moves prefill's counter once"


def test_prefill_that_computes_and_cannot_hand_over_is_no_queue() -> None:
    """The link is cut under load: prefill goes on computing for clients who will get nothing."""
    traffic = sampled((12.0, {HANDING: 2.0}, {}), (14.0, {HANDING: 5.0}, {}))
    assert not traffic.only_queued(11.0, moves=5)


def test_transfers_that_fail_are_no_queue() -> None:
    traffic = sampled((12.0, {HANDING: 0.0}, {FAILED: 3.0}))
    assert not traffic.only_queued(11.0, moves=5)
    assert traffic.only_queued(12.5, moves=5) is False, "nothing was seen of prefill since"


def test_clients_that_leave_do_not_make_a_queue_a_failure() -> None:
    """The engine counts each as a failed transfer as well."""
    traffic = sampled((12.0, {HANDING: 0.0, ABORTED: 3.0, FAILED: 2.0}, {FAILED: 3.0, ABORTED: 3.0}))
    assert traffic.only_queued(11.0, moves=5)
