"""Policy over several members: whatever befalls one of them, the others serve while it is restarted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from dsv4_pd.plan.guard_config import Limits
from dsv4_pd.run.guard import conditions, policy
from dsv4_pd.run.guard.states import Answer, Complaint, Remedy
from dsv4_pd.run.states import SERVING, StateName
from guard.fleet import Fleet
from guard.simulation import LIMITS

THREE, TWO_ONE, ONE_TWO, TWO_TWO = "replicas:3x1", "pd:2x1+1", "pd:1+2x1", "pd:2x1+2x1"


def ready(layout: str, limits: Limits = LIMITS) -> Fleet:
    world = Fleet(layout, limits)
    world.run(100, StateName.READY)
    assert world.state.name is StateName.READY, world.state
    world.run(10)
    return world


def named(world: Fleet) -> StateName:
    """Its state now, which a later step changes: a type checker takes an attribute that was compared as settled."""
    return world.state.name


@pytest.mark.parametrize("layout", [THREE, TWO_ONE, ONE_TWO, TWO_TWO])
def test_a_start_goes_straight_to_ready(layout: str) -> None:
    world = ready(layout)
    assert world.history == ["BOOTING", "LOADING", "WARMING", "READY"]
    assert world.state.reason == f"{len(world.routes)} paths and the router proved"


Fault = Callable[[Fleet, str], None]


def dies(world: Fleet, name: str) -> None:
    world.die(name)


def hangs(world: Fleet, name: str) -> None:
    world[name].forced = {"ready": Answer.SILENT, "health": Answer.SILENT}
    world[name].progressing = False
    answers_wrong(world, name)


def says_no(world: Fleet, name: str) -> None:
    world[name].forced = {"ready": Answer.NO}
    world[name].progressing = False


def loses_its_scheduler(world: Fleet, name: str) -> None:
    world[name].forced = {"lost": "its scheduler was ended by SIGKILL"}


def answers_wrong(world: Fleet, name: str) -> None:
    world.broken |= {route for route in world.routes if name in route}


def refuses_bootstrap(world: Fleet, name: str) -> None:
    world[name].forced = {"bootstrap": Answer.NO}


def heals(world: Fleet, name: str) -> None:
    world[name].forced, world[name].progressing = {}, True
    world.broken = set()


# layout, who, what befalls it, seconds until it is restarted
BEFALLS = [(dies, 1), (hangs, 61), (says_no, 31), (loses_its_scheduler, 1), (answers_wrong, 75)]
ONE_OF_SEVERAL = [
    *((THREE, "single-3", fault, bound) for fault, bound in BEFALLS),
    *((TWO_ONE, "prefill-2", fault, bound) for fault, bound in [*BEFALLS, (refuses_bootstrap, 16)]),
    *((ONE_TWO, "decode-1", fault, bound) for fault, bound in BEFALLS),
    (TWO_TWO, "prefill-2", refuses_bootstrap, 16),
]


@pytest.mark.parametrize(
    ("layout", "who", "fault", "bound"),
    ONE_OF_SEVERAL,
    ids=[f"{layout}-{who}-{fault.__name__}" for layout, who, fault, _ in ONE_OF_SEVERAL],
)
def test_what_befalls_one_leaves_the_others_serving(layout: str, who: str, fault: Fault, bound: float) -> None:
    world = ready(layout)
    before = len(world.starts)
    fault(world, who)
    reasons = set()
    begun = world.now
    while world.started(who) < 2 and world.now - begun < 200:
        world.step()
        assert world.state.name in SERVING, world.state
        reasons.add(world.state.reason)
        if not world[who].up:
            heals(world, who)
    assert world.now - begun <= bound + 3
    assert any(who in reason for reason in reasons), reasons
    world.run(100, StateName.READY)
    assert world.state.name is StateName.READY, world.state
    assert [name for _, name in world.starts[before:]] == [who], "nobody else was restarted"
    assert set(world.history[4:]) <= {"DEGRADED", "READY"}
    assert world.state.charges == (), "the appliance's own budget is untouched"
    assert len(world.state.budget(who).charges) == 1


def test_the_reason_names_who_is_missing_why_and_who_serves() -> None:
    world = ready(TWO_ONE)
    world.die("prefill-1")
    world.run(1)
    assert world.state.name is StateName.DEGRADED
    assert world.state.reason.startswith("prefill-1: down (recovering from: prefill-1 exited with code 3)")
    assert world.state.reason.endswith("served by prefill-2 to decode")


@pytest.mark.parametrize(
    ("layout", "who"), [(THREE, ("single-1", "single-2", "single-3")), (TWO_ONE, ("decode",)), (ONE_TWO, ("prefill",))]
)
def test_without_what_everybody_needs_nothing_is_served(layout: str, who: tuple[str, ...]) -> None:
    world = ready(layout)
    for name in who:
        world.die(name)
    world.step()
    assert world.state.name is StateName.RECOVERING
    assert len(world.state.charges) == 1, "paid once, from the appliance's budget"
    world.run(100, StateName.READY)
    assert named(world) is StateName.READY
    assert all(world.started(name) == 2 for name in who)


def test_the_first_that_comes_back_serves() -> None:
    world = ready(THREE)
    for name, load in (("single-1", 300.0), ("single-2", 30.0), ("single-3", 600.0)):
        world[name].load_s = load
        world.die(name)
    took = world.run(100, StateName.DEGRADED)
    assert 30 <= took < 35
    assert world.state.reason.endswith("served by single-2")
    assert world.run(700, StateName.READY) < 600


def test_all_that_die_every_time_end_the_appliance() -> None:
    world = Fleet(THREE)
    for role in world.members.values():
        role.life_s = 5.0
    world.run(600, StateName.FAILED)
    assert (world.state.name, world.verdict().code) == (StateName.FAILED, 1)
    assert "restart(s) did not help" in world.verdict().cause


def test_one_that_dies_every_time_neither_ends_the_appliance_nor_is_given_up() -> None:
    limits = Limits(restart_limit=2, restart_window=120.0)
    world = ready(THREE, limits)
    world["single-2"].life_s = 5.0
    world.die("single-2")
    windows = 6
    for _ in range(windows):
        world.run(limits.restart_window, StateName.FAILED)
        assert world.state.name is StateName.DEGRADED, world.state
    assert windows <= world.started("single-2") - 1 <= windows * limits.restart_limit + 2
    world["single-2"].life_s = None
    assert world.run(limits.stable + 40, StateName.READY) < limits.stable + 40
    assert world.state.charges == ()


def test_a_long_load_is_no_time_of_serving() -> None:
    """It dies soon after it serves, every time; what it needed to load does not make its failures forgotten."""
    limits = Limits(restart_limit=2, restart_window=120.0)
    world = ready(THREE, limits)
    world["single-2"].load_s, world["single-2"].life_s = limits.stable + 40, limits.stable + 45
    world.die("single-2")
    world.run(6 * (limits.stable + 45), StateName.FAILED)
    assert world.state.name is StateName.DEGRADED, world.state
    assert world.state.budget("single-2").failures >= 3
    assert world.state.budget("single-2").not_before - world.now <= limits.stable


def test_its_streak_is_forgotten_when_it_has_served_for_long() -> None:
    limits = Limits(restart_window=120.0)
    world = ready(THREE, limits)
    world.die("single-2")
    world.step()
    world.run(100, StateName.READY)
    assert world.state.budget("single-2").failures == 1
    world.run(limits.stable + 10)
    assert world.state.members == ()


def test_one_that_waits_out_its_back_off_is_started_at_once_when_it_is_needed() -> None:
    world = ready("replicas:2x1")
    world["single-2"].life_s = 1.0
    world.die("single-2")
    world.run(120)
    waits = world.state.budget("single-2").not_before - world.now
    assert waits > 100 and not world["single-2"].up
    world["single-2"].life_s = None
    world.die("single-1")
    world.step()
    world.step()
    assert world["single-2"].up


# --- starting --------------------------------------------------------------------------------------------------------


def test_a_start_waits_for_the_rest_only_for_a_while() -> None:
    world = Fleet(THREE)
    world["single-3"].load_s = 300.0
    took = world.run(200, StateName.DEGRADED, StateName.READY)
    assert world.state.name is StateName.DEGRADED
    assert LIMITS.rest_timeout <= took < LIMITS.rest_timeout + 30
    assert world.state.reason == "single-3: down; served by single-1, single-2", "it recovers from nothing"
    world.run(300, StateName.READY)
    assert named(world) is StateName.READY and world.started("single-3") == 1


def test_the_rest_is_waited_for_up_to_the_bound_and_no_longer() -> None:
    world = Fleet(THREE)
    world["single-3"].load_s = 300.0
    while world.state.partial is None:
        world.step()
    waits = world.state
    assert waits.partial is not None
    for seconds, name in ((LIMITS.rest_timeout, StateName.LOADING), (LIMITS.rest_timeout + 0.1, StateName.DEGRADED)):
        later = replace(world.observe(), now=waits.partial + seconds)
        assert policy.next_state(waits, later, LIMITS)[0].name is name


def test_a_rest_that_comes_soon_is_waited_for() -> None:
    world = Fleet(THREE)
    world["single-3"].load_s = 20.0 + LIMITS.rest_timeout / 2
    world.run(200, StateName.READY)
    assert "DEGRADED" not in world.history


def test_one_that_never_comes_does_not_end_a_start() -> None:
    limits = Limits(start_timeout=200.0)
    world = Fleet(THREE, limits)
    world["single-3"].load_s = None
    world.run(limits.start_timeout * 1.5)
    assert world.state.name is StateName.DEGRADED and world.state.verdict is None


def test_one_that_hangs_while_it_loads_is_restarted() -> None:
    world = Fleet(THREE)
    world["single-3"].load_s, world["single-3"].progressing = None, False
    world.run(LIMITS.stall_timeout + 40)
    assert world.started("single-3") == 2
    assert "DSV4_STALL_TIMEOUT" in world.state.budget("single-3").cause
    assert world.state.name is StateName.DEGRADED


EXIT = Complaint(Remedy.EXIT, "no memory left for KV")


def test_a_line_that_would_end_the_appliance_costs_one_member() -> None:
    world = Fleet(THREE)
    world.run(1)
    world["single-2"].forced = {"complaint": EXIT, "ready": Answer.NO}
    world.run(120)
    assert world.state.name is StateName.DEGRADED
    assert world.state.budget("single-2").cause == "single-2: no memory left for KV"


def test_the_same_line_of_all_ends_it() -> None:
    world = Fleet("replicas:2x1")
    for role in world.members.values():
        role.forced = {"complaint": EXIT, "ready": Answer.NO, "up": False}
    world.run(20, StateName.FAILED)
    assert world.verdict().cause.endswith("no memory left for KV")


def test_a_card_that_somebody_holds_costs_one_member() -> None:
    world = Fleet(THREE)
    world["single-2"].forced = {"gpu_holder": "GPU 1: 40 GB held by process 7"}
    world.run(LIMITS.gpu_wait * 3)
    assert world.state.name is StateName.DEGRADED
    assert world.state.reason.startswith("single-2: GPU 1: 40 GB held by process 7")


def test_plugins_are_proved_in_each_member() -> None:
    world = Fleet(THREE)
    world["single-2"].forced = {"unproved": ("dsv4-gate in single-2: left no record",)}
    world.run(20 + LIMITS.plugin_timeout + 30)
    assert world.started("single-2") == 2 and world.started("single-1") == 1
    assert world.state.name is StateName.DEGRADED
    world.run(25)
    assert world.state.reason.startswith("plugin not live: dsv4-gate in single-2: left no record")


# --- the router, links, aborts ---------------------------------------------------------------------------------------


def test_a_router_that_carries_nothing_is_restarted_and_no_server() -> None:
    world = ready(THREE)
    world.router_carries = False
    world.run(120, StateName.RECOVERING)
    assert world.state.name is StateName.RECOVERING
    while world.started("router") < 2 and world.state.verdict is None:
        world.step()
    world.router_carries = True
    world.run(100, StateName.READY)
    assert named(world) is StateName.READY
    assert [world.started(name) for name in world.members] == [1, 1, 1]
    assert len(world.state.charges) == 1


def test_a_router_that_dies_is_missed_by_all() -> None:
    world = ready(THREE)
    world.die("router")
    world.step()
    assert world.state.name is StateName.RECOVERING and len(world.state.charges) == 1
    world.run(60, StateName.READY)
    assert named(world) is StateName.READY


def test_a_single_link_that_is_broken_costs_the_half_that_answers() -> None:
    world = ready(TWO_TWO)
    world.broken = {("prefill-1", "decode-2")}
    begun = world.now
    while world.started("decode-2") < 2 and world.now - begun < 100:
        world.step()
        assert world.state.name in SERVING
    world.broken = set()
    world.run(100, StateName.READY)
    assert {name: world.started(name) for name in world.members} == {
        "prefill-1": 1, "prefill-2": 1, "decode-1": 1, "decode-2": 2,
    }  # fmt: skip


def test_one_that_the_router_forgot_is_told_again() -> None:
    world = ready(THREE)
    told = world.registered
    world["single-2"].forced = {"unlisted": True}
    seen = replace(world.observe(), servers=tuple(role.observe(world.now) for role in world.members.values()))
    assert [item.text for item in conditions.unmet(seen)] == ["single-2: the router gives it no requests"]
    world.observe = lambda: replace(seen, now=world.now)  # type: ignore[method-assign]
    world.step()
    assert world.state.name is StateName.DEGRADED and world.registered > told


def test_a_prefill_that_serves_with_another_decode_ends_what_it_holds_for_a_short_while() -> None:
    world = ready(ONE_TWO)
    world.die("decode-1")
    begun = world.now
    world.run(30)
    times = [at - begun for at, name in world.aborted if name == "prefill"]
    assert times and LIMITS.shared_abort_window - 1 < max(times) <= LIMITS.shared_abort_window


def test_every_prefill_ends_what_it_holds_for_the_only_decode() -> None:
    world = ready(TWO_ONE)
    world["decode"].load_s = 60.0
    world.die("decode")
    begun = world.now
    world.run(50)
    assert {name for _, name in world.aborted} == {"prefill-1", "prefill-2"}
    assert max(at - begun for at, _ in world.aborted) > LIMITS.abort_window - 1


def test_replicas_hold_nothing_for_each_other() -> None:
    world = ready(THREE)
    world.die("single-1")
    world.run(10)
    assert world.aborted == []
