"""One step of `next_state` from a state and a world that are written out: every field of what it remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import policy
from dsv4_pd.run.guard.decide.states import (
    Act,
    Action,
    Answer,
    CanaryView,
    Observation,
    Phase,
    RoleView,
    State,
    Verdict,
)
from dsv4_pd.run.states import SERVING, StateName

NOW = 1000.0
LIMITS = Limits(restart_limit=3, restart_window=1800.0)
BOTH = ("prefill", "decode")


def role(name: str, **fields: Any) -> RoleView:
    """A program that serves."""
    plain = RoleView(name, up=True, idle=False, ready=Answer.YES, deaths=1, started=100.0, progress=NOW, served=True,
                     worked=NOW)  # fmt: skip
    return replace(plain, **fields)


def dead(name: str, **fields: Any) -> RoleView:
    return role(name, **{"up": False, "idle": True, "ready": Answer.NO, "served": False, "deaths": 2, "ended": NOW,
                         "exit": "exited with code 3"} | fields)  # fmt: skip


def world(*changed: RoleView, **fields: Any) -> Observation:
    by_name = {each.name: each for each in (role("prefill"), role("decode"), role("router"), *changed)}
    plain = Observation(NOW, (by_name["prefill"], by_name["decode"]), by_name["router"],
                        canary=CanaryView(900.0, NOW))  # fmt: skip
    return replace(plain, **fields)


def serving(**fields: Any) -> State:
    plain = State(StateName.READY, "proved", 200.0, 150.0, serving_since=200.0,
                  deaths=(("prefill", 1), ("decode", 1), ("router", 1)))  # fmt: skip
    return replace(plain, **fields)


def recovering(**fields: Any) -> State:
    plain = serving(name=StateName.RECOVERING, since=400.0, down_since=300.0, serving_since=None, cause="what began it",
                    origin="what began it")  # fmt: skip
    return replace(plain, **fields)


def step(state: State, seen: Observation, limits: Limits = LIMITS) -> State:
    return policy.next_state(state, seen, limits)[0]


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [StateName.FAILED, StateName.STOPPING])
def test_an_end_is_final(name: StateName) -> None:
    state = serving(name=name, verdict=Verdict(1, "x"))
    assert step(state, world(dead("decode"), stop="SIGTERM", gpu_lost="GPU 0")) is state


def test_safe_is_left_by_a_stop_alone() -> None:
    state = State(StateName.SAFE, "why", 1.0, 1.0)
    assert step(state, world(dead("decode"), gpu_lost="GPU 0 is lost")) is state
    assert step(state, world(stop="SIGTERM")).verdict == Verdict(0, "SIGTERM")


@pytest.mark.parametrize("before", [serving(), recovering()], ids=["serving", "not serving"])
@pytest.mark.parametrize(
    ("seen", "name", "verdict"),
    [
        (world(stop="stopped by SIGTERM"), StateName.STOPPING, Verdict(0, "stopped by SIGTERM")),
        (world(gpu_lost="GPU 1 is lost"), StateName.FAILED, Verdict(70, "GPU 1 is lost")),
        (world(fault=Verdict(75, "port 8001 is taken")), StateName.FAILED, Verdict(75, "port 8001 is taken")),
    ],
)
def test_how_it_ends_is_remembered_whole(before: State, seen: Observation, name: StateName, verdict: Verdict) -> None:
    after = step(before, seen)
    assert (after.name, after.reason, after.since, after.verdict) == (name, verdict.cause, NOW, verdict)
    assert after.serving_since is None
    assert after.down_since == (NOW if before.name in SERVING else 300.0)


# --- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "seen", "settled"),
    [
        (recovering(settled=None), world(), NOW),
        (recovering(settled=990.0), world(), 990.0),
        (recovering(settled=990.0), world(role("decode", ready=Answer.NO)), None),
        (recovering(settled=990.0), world(dead("router", deaths=1)), None),
        (serving(settled=990.0), world(), None),
    ],
    ids=["begins", "runs on", "a server is not ready", "the router is not up", "serving"],
)
def test_since_when_only_the_path_is_unproved(before: State, seen: Observation, settled: float | None) -> None:
    seen = replace(seen, canary=CanaryView())  # not READY yet
    assert step(before, seen).settled == settled


def test_since_when_foreign_memory_is_waited_for() -> None:
    held = dead("decode", deaths=1, gpu_holder="GPU 1: 40 GB held by process 7")
    assert step(recovering(), world(held)).held_since == NOW
    assert step(recovering(held_since=990.0), world(held)).held_since == 990.0
    assert step(recovering(held_since=990.0), world(replace(held, idle=False))).held_since is None
    assert step(recovering(held_since=990.0), world()).held_since is None
    ended = step(recovering(held_since=NOW - LIMITS.gpu_wait - 0.1), world(held))
    assert ended.verdict == Verdict(75, "GPU 1: 40 GB held by process 7")


@pytest.mark.parametrize(("since", "failures"), [(NOW - 600.0, 0), (NOW - 599.9, 2), (None, 2)])
def test_a_stable_ready_ends_a_streak_of_failures(since: float | None, failures: int) -> None:
    assert LIMITS.stable == 600.0
    before = serving(failures=2, serving_since=since) if since else recovering(failures=2)
    assert step(before, world(role("prefill", ready=Answer.NO))).failures == failures


# --- the budget ------------------------------------------------------------------------------------------------------


def test_a_death_costs_one_restart_and_all_of_it_is_remembered() -> None:
    after = step(serving(), world(dead("decode"), role("router")))
    assert (after.name, after.since, after.down_since, after.serving_since) == (StateName.RECOVERING, NOW, NOW, None)
    assert after.reason == "decode exited with code 3; restarting decode (1 of 3)"
    assert after.cause == after.origin == "decode exited with code 3"
    assert (after.charges, after.failures, after.not_before, after.settled) == ((NOW,), 1, NOW, None)
    assert after.condemned == frozenset(), "what is dead need not be ended"
    assert dict(after.deaths) == {"prefill": 1, "decode": 2, "router": 1}


def test_a_further_death_in_a_recovery_keeps_what_began_it() -> None:
    after = step(recovering(charges=(500.0,), failures=1), world(dead("prefill")))
    assert (after.since, after.down_since, after.origin) == (400.0, 300.0, "what began it")
    assert (after.cause, after.failures, after.not_before) == ("prefill exited with code 3", 2, NOW + 2.0)
    assert after.charges == (500.0, NOW)


def test_who_must_end_is_condemned_once_and_forgotten_when_dead() -> None:
    lost = world(role("decode", lost="its scheduler was ended by SIGKILL"))
    after, acts = policy.next_state(serving(), lost, LIMITS)
    assert after.condemned == {("decode", 1)} and acts == (Action(Act.KILL, "decode"),)
    again, acts = policy.next_state(after, replace(lost, now=NOW + 1), LIMITS)
    assert (again.charges, acts) == (after.charges, (Action(Act.KILL, "decode"),)), "one restart, asked for again"
    assert "decode: being ended" in again.reason
    gone = step(again, replace(world(dead("decode")), now=NOW + 2))
    assert (gone.condemned, gone.charges) == (frozenset(), (NOW,))


@pytest.mark.parametrize(
    ("charges", "failures", "ends"),
    [
        ((900.0, 910.0), 2, False),
        ((900.0, 910.0, 920.0), 0, True),  # within the window, though each was followed by a stable READY
        ((), 3, True),  # in a row, though the window has forgotten them
        ((NOW - 1800.0, NOW - 1800.1, 990.0), 1, False),
        ((NOW - 1799.9, 980.0, 990.0), 1, True),
    ],
)
def test_the_budget_is_spent_by_rate_or_in_a_row(charges: tuple[float, ...], failures: int, ends: bool) -> None:
    after = step(recovering(charges=charges, failures=failures), world(dead("decode")))
    assert (after.name is StateName.FAILED) is ends
    if not ends:
        assert after.charges == (*(at for at in charges if at > NOW - 1800), NOW)


def test_the_last_word_names_the_last_failure_and_what_began_it() -> None:
    spent = recovering(failures=3)
    said = step(spent, world(dead("decode"))).verdict
    last = "decode exited with code 3; 3 restart(s) did not help (DSV4_RESTART_LIMIT)"
    assert said == Verdict(1, f"{last}; it began with: what began it", "decode")
    for origin in ("", "decode exited with code 3"):
        assert step(replace(spent, origin=origin), world(dead("decode"))).verdict == Verdict(1, last, "decode")


@pytest.mark.parametrize(
    ("charged", "started", "paid"),
    [(NOW - 2.0, 100.0, True), (NOW - 2.1, 100.0, False), (NOW - 1.0, NOW - 0.5, False), (NOW - 1.0, NOW - 1.0, False)],
    ids=["a moment ago", "too long ago", "started since", "started just then"],
)
def test_what_died_together_is_paid_once(charged: float, started: float, paid: bool) -> None:
    before = recovering(charges=(charged,), failures=1)
    after = step(before, world(dead("prefill", started=started)))
    assert (after.failures, len(after.charges)) == ((1, 1) if paid else (2, 2))
    assert after.cause == ("what began it; prefill exited with code 3" if paid else "prefill exited with code 3")
    assert after.not_before == (NOW if paid else NOW + 2.0)


def test_what_died_together_without_a_first_cause_is_its_own() -> None:
    after = step(recovering(charges=(NOW,), failures=1, cause="", origin=""), world(dead("prefill")))
    assert after.cause == after.origin == "prefill exited with code 3"


def test_a_broken_path_restarts_both_and_its_wait_begins_again() -> None:
    broken = world(canary=CanaryView(failures=2, failure="link from prefill to decode"))
    after = step(recovering(settled=990.0), broken)
    assert after.reason == "canary: link from prefill to decode; restarting prefill, decode (1 of 3)"
    assert after.settled is None
    assert after.condemned == {("prefill", 1), ("decode", 1)}


# --- names -----------------------------------------------------------------------------------------------------------


def test_ready_again_forgets_what_it_recovered_from() -> None:
    after = step(recovering(), world())
    assert (after.name, after.reason) == (StateName.READY, "prefill to decode proved through the router")
    assert (after.since, after.serving_since, after.down_since, after.cause, after.origin) == (NOW, NOW, 300.0, "", "")
    later = step(after, replace(world(), now=NOW + 5))
    assert (later.since, later.serving_since) == (NOW, NOW)


@pytest.mark.parametrize("before", [serving(), recovering()], ids=["serving", "not serving"])
def test_a_silence_degrades_who_serves_and_keeps_others_out(before: State) -> None:
    seen = world(role("decode", ready=Answer.SILENT), now=NOW)
    after = step(before, seen)
    if before.name in SERVING:
        assert (after.name, after.reason) == (StateName.DEGRADED, "decode: does not answer in time")
        assert (after.since, after.serving_since, after.down_since) == (NOW, 200.0, 150.0)
    else:
        assert after.name is StateName.RECOVERING
        assert after.reason == "recovering from: what began it; now: decode: does not answer in time"
        assert (after.since, after.serving_since, after.down_since) == (400.0, None, 300.0)
        assert after.cause == after.origin == "what began it"


@pytest.mark.parametrize("before", [serving(), recovering()], ids=["serving", "not serving"])
@pytest.mark.parametrize("failures", [1, 2])
def test_one_failed_canary_is_enough_only_where_nothing_is_served(before: State, failures: int) -> None:
    canary = CanaryView(900.0, NOW, failures=failures, failure="link")
    after = step(before, world(canary=canary))
    degraded = before.name in SERVING and failures == 1
    assert after.name is (StateName.DEGRADED if degraded else StateName.RECOVERING)
    assert "link" in after.reason


def test_a_ready_that_says_no_takes_it_away() -> None:
    after = step(serving(), world(role("decode", ready=Answer.NO, detail="/ready says no")))
    assert (after.name, after.reason) == (StateName.RECOVERING, "decode: /ready says no")
    assert (after.down_since, after.serving_since) == (NOW, None)


@pytest.mark.parametrize(
    ("servers", "name"),
    [
        ((dead("prefill", deaths=0), dead("decode", deaths=0)), StateName.BOOTING),
        ((role("prefill", ready=Answer.NO, phase=Phase.WEIGHTS), dead("decode", deaths=0)), StateName.LOADING),
        ((role("prefill"), role("decode", ready=Answer.NO, phase=Phase.KV)), StateName.LOADING),
        ((role("prefill"), role("decode", up=False, idle=False, deaths=0)), StateName.LOADING),
        ((role("prefill"), role("decode")), StateName.WARMING),
    ],
)
def test_how_far_a_first_start_has_come(servers: tuple[RoleView, RoleView], name: StateName) -> None:
    first = State(
        StateName.BOOTING, "starting", NOW - 5, NOW - 5, deaths=(("prefill", 1), ("decode", 1), ("router", 1))
    )
    seen = world(*(replace(each, served=False) for each in servers), canary=CanaryView())
    assert step(first, seen).name is name
