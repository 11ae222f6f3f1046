"""`next_state` as tables: each fault, what it leads to, and within which bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from dsv4_pd.plan.guard.config import Limits
from dsv4_pd.run.guard.decide import complaints, conditions
from dsv4_pd.run.guard.decide.states import Act, Answer, CanaryView, Complaint, Observation, Remedy, RoleView, Verdict
from dsv4_pd.run.states import CLOSING, SERVING, StateName
from guard.simulation import LIMITS, TICK, Simulation
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule


def ready(limits: Limits = LIMITS) -> Simulation:
    world = Simulation(limits)
    world.run(60, StateName.READY)
    assert world.state.name is StateName.READY
    return world


def named(world: Simulation) -> StateName:
    """Its state now, which a later step changes: a type checker takes an attribute that was compared as settled."""
    return world.state.name


# --- budget ---------------------------------------------------------------------------------------------------------


def test_two_servers_that_one_cause_kills_are_paid_once() -> None:
    world = ready()
    world.die(world.prefill)
    world.step()  # the first death is dealt with before the second is detected
    world.die(world.decode)
    world.run(100, StateName.READY)
    assert len(world.state.charges) == 1


def test_a_server_that_dies_again_is_paid_again() -> None:
    world = ready()
    world.die(world.decode)
    world.step()
    world.step()
    world.die(world.decode)
    world.run(100, StateName.READY)
    assert len(world.state.charges) == 2


# --- starting --------------------------------------------------------------------------------------------------------


def test_a_start_goes_through_its_states_in_order() -> None:
    assert ready().history == ["BOOTING", "LOADING", "WARMING", "READY"]


def test_ready_follows_the_last_condition_within_two_ticks() -> None:
    world = Simulation()
    world.decode.load_s = 47.0
    assert world.run(100, StateName.READY) <= 47.0 + 3 * TICK


def test_slower_than_any_timer_is_not_dead_while_it_progresses() -> None:
    world = Simulation()
    world.decode.load_s = LIMITS.start_timeout - 60
    world.run(LIMITS.start_timeout, StateName.READY)
    assert world.state.name is StateName.READY
    assert len(world.starts) == len(world.roles)


Set = Callable[[Simulation], None]


def _set(target: str, **values: object) -> Set:
    def change(world: Simulation) -> None:
        for name, value in values.items():
            setattr(getattr(world, target) if target else world, name, value)

    return change


def _forced(target: str, **values: object) -> Set:
    return lambda world: getattr(world, target).forced.update(values)


def _seen(**values: object) -> Set:
    return lambda world: world.observation.update(values)


EXIT = Complaint(Remedy.EXIT, "no memory left for KV")
NO_DRIVER = Complaint(Remedy.EXIT, "no NVIDIA driver", 70)

# fault during the start → exit code, words of the cause, by when (seconds)
NEVER_READY = [
    ("never ready", _set("decode", load_s=None), 1, "DSV4_START_TIMEOUT", LIMITS.start_timeout + 1),
    ("exits at once", _set("decode", life_s=0.1, load_s=None), 1, "3 restart(s) did not help", 30),
    ("exits after a minute, each time", _set("decode", life_s=60.0), 1, "decode exited with code 3", 300),
    ("exits after ten minutes, each time", _set("decode", life_s=590.0), 1, "did not help", 2600),
    ("weights stop moving", _set("prefill", load_s=None, progressing=False), 1, "DSV4_STALL_TIMEOUT", 1300),
    ("a fatal line that no restart helps", _forced("prefill", complaint=EXIT), 1, "prefill: no memory", 1),
    ("no driver", _forced("prefill", complaint=NO_DRIVER), 70, "no NVIDIA driver", 1),
    ("GPU lost", _seen(gpu_lost="GPU 0 is lost"), 70, "GPU 0 is lost", 1),
    ("ops port taken", _seen(fault=Verdict(75, "port 8001")), 75, "port 8001", 1),
    ("GPU memory held", _forced("decode", gpu_holder="GPU 1: 40 GB held by process 7"), 75, "process 7", 70),
    ("the KV link is broken", _set("", link=False), 1, "canary: link from prefill to decode", 700),
    ("bootstrap port not bound", _seen(bootstrap=Answer.NO), 1, "bootstrap port", 200),
    ("router blind", _set("router", load_s=None), 1, "router: does not list", 200),
    (
        "plugin not live",
        _seen(missing_proof=("dsv4-kernels in decode: no record",)),
        1,
        "; DSV4_KERNELS=stock starts without our kernels",
        100,
    ),
    (
        "gate not live",
        _seen(missing_proof=("dsv4-gate in decode: no record",)),
        1,
        "no record; dsv4-gate can't be left out",
        100,
    ),
]


@pytest.mark.parametrize(
    ("fault", "code", "words", "bound"), [row[1:] for row in NEVER_READY], ids=[row[0] for row in NEVER_READY]
)
def test_a_start_that_fails_ends_with_one_cause(fault: Set, code: int, words: str, bound: float) -> None:
    world = Simulation()
    fault(world)
    world.run(bound, StateName.FAILED)
    assert world.state.name is StateName.FAILED
    assert (world.verdict().code, words in world.verdict().cause) == (code, True), world.verdict()
    world.run(10)
    assert world.shut
    assert not any(role.up for role in world.roles)


def test_the_back_off_grows_and_the_first_restart_waits_for_nothing() -> None:
    world = Simulation()
    world.decode.life_s, world.decode.load_s = 0.1, None
    world.run(60, StateName.FAILED)
    at = [when for when, name in world.starts if name == "decode"]
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert len(gaps) == LIMITS.restart_limit
    assert gaps[0] < 1 < 2 <= gaps[1] < 4 <= gaps[2] < 6


def test_safe_starts_nothing_and_ends_what_runs() -> None:
    world = Simulation(safe="3 starts in a row failed")
    world.prefill.up = True
    world.run(600)
    assert world.state.name is StateName.SAFE
    assert [name for _, name in world.starts] == ["front"], "it tells clients why nothing is served"
    assert not world.prefill.up


# --- recovery --------------------------------------------------------------------------------------------------------

# what dies → who is restarted
DEATHS = [
    (("decode",), {"decode"}),
    (("prefill",), {"prefill"}),
    (("router",), {"router"}),
    (("front",), {"front"}),
    (("front", "router"), {"front", "router"}),
    (("prefill", "decode"), {"prefill", "decode"}),
    (("prefill", "decode", "router"), {"prefill", "decode", "router"}),
]


UNPROVED = ("dsv4-gate in decode: No space left on device",)


def test_a_plugin_that_fails_after_a_recovery_costs_a_restart_of_both() -> None:
    """It proved itself before, so what keeps it from doing so now may pass, as a full disk does."""
    world = ready()
    world.observation["missing_proof"] = UNPROVED
    world.die(world.decode)
    world.run(30 + LIMITS.plugin_timeout)
    assert named(world) is StateName.RECOVERING
    assert "dsv4-gate in decode" in world.state.cause
    del world.observation["missing_proof"]
    world.run(100, StateName.READY)
    assert world.state.name is StateName.READY


def test_a_plugin_that_fails_for_good_ends_the_appliance() -> None:
    world = ready()
    world.observation["missing_proof"] = UNPROVED
    world.die(world.decode)
    world.run(900, StateName.FAILED)
    assert world.state.name is StateName.FAILED
    assert "dsv4-gate in decode" in world.verdict().cause and "did not help" in world.verdict().cause


@pytest.mark.parametrize(("dead", "restarted"), DEATHS, ids=[" and ".join(row[0]) for row in DEATHS])
def test_a_death_leaves_ready_at_once_and_heals(dead: tuple[str, ...], restarted: set[str]) -> None:
    world = ready()
    world.starts.clear()
    for name in dead:
        world.die(getattr(world, name))
    world.step()
    assert named(world) is StateName.RECOVERING
    took = world.run(100, StateName.READY)
    assert world.state.name is StateName.READY
    assert took <= 20 + 10
    assert {name for _, name in world.starts} == restarted
    assert len(world.state.charges) == 1, "one incident costs one restart, however many died"


def test_what_died_together_is_charged_once_though_heard_of_apart() -> None:
    world = ready()
    world.die(world.decode)
    world.run(1, "-")
    world.die(world.prefill)
    world.step()
    assert world.state.cause == "decode exited with code 3; prefill exited with code 3", "the first one first"
    world.run(100, StateName.READY)
    assert len(world.state.charges) == 1


def test_one_dies_while_the_other_restarts() -> None:
    world = ready()
    world.die(world.decode)
    world.run(5)
    world.die(world.prefill)
    assert world.run(100, StateName.READY) <= 30
    assert len(world.state.charges) == 2


def test_one_sided_first_then_the_pair_when_the_canary_fails() -> None:
    world = ready()
    world.starts.clear()
    world.die(world.decode)
    world.link = False
    world.run(180, "-")
    assert [name for _, name in world.starts][:3] == ["decode", "prefill", "decode"]
    world.link = True
    world.run(100, StateName.READY)
    assert world.state.name is StateName.READY


def test_only_the_failing_server_is_restarted_when_its_own_test_fails() -> None:
    world = ready()
    world.starts.clear()
    world.link = False
    world.canary_due = 0
    world.decode.forced["health"] = Answer.NO
    world.run(200, StateName.RECOVERING)
    world.run(1, "-")
    world.decode.forced.clear()
    world.link = True
    world.run(100, StateName.READY)
    assert {name for _, name in world.starts} == {"decode"}


def test_one_failed_canary_is_a_doubt_and_two_are_a_verdict() -> None:
    world = ready()
    world.observation["canary"] = replace(world.canary, failures=1, failure="decode: answered an error")
    world.step()
    assert named(world) is StateName.DEGRADED
    world.observation["canary"] = replace(world.canary, failures=2, failure="decode: answered an error")
    world.step()
    assert world.state.name is StateName.RECOVERING


def test_the_router_is_restarted_when_its_view_stays_wrong_and_told_before() -> None:
    world = ready()
    world.starts.clear()
    world.router.forced["ready"] = Answer.NO
    world.run(LIMITS.router_timeout)
    assert world.registered
    assert not world.starts
    world.run(2)
    world.router.forced.clear()
    world.run(10, StateName.READY)
    assert [name for _, name in world.starts] == ["router"]
    assert world.state.name is StateName.READY


# --- silences: what a server that served owes, and for how long it is waited for --------------------------------------

# what is heard → who is restarted, after how long, words of the cause
SILENCES = {
    "/ready says no": ("decode", {"ready": Answer.NO}, {"decode"}, LIMITS.unready_timeout, "decode: /ready says no"),
    "/ready of prefill says no": (
        "prefill",
        {"ready": Answer.NO},
        {"prefill"},
        LIMITS.unready_timeout,
        "prefill: /ready says no",
    ),
    "/ready is silent": (
        "decode",
        {"ready": Answer.SILENT},
        {"decode"},
        LIMITS.silent_timeout,
        "decode: /ready does not answer",
    ),
    "/health fails behind a good /ready": (
        "decode",
        {"health": Answer.NO},
        {"decode"},
        LIMITS.silent_timeout,
        "decode: its own test generation",
    ),
    "/health is silent behind a good /ready": (
        "prefill",
        {"health": Answer.SILENT},
        {"prefill"},
        LIMITS.silent_timeout,
        "prefill: its own test generation",
    ),
    "the router is silent": ("router", {"ready": Answer.SILENT}, {"router"}, LIMITS.unready_timeout, "router: has not"),
    "the front is silent": ("front", {"ready": Answer.SILENT}, {"front"}, LIMITS.front_timeout, "front: has not"),
    "the front refuses": ("front", {"ready": Answer.NO}, {"front"}, LIMITS.unready_timeout, "front: "),
}


def no_canary(world: Simulation) -> None:
    """Only the silence itself is to be seen."""
    world.canary_due = world.now + 1e6


@pytest.mark.parametrize(("who", "heard", "restarted", "bound", "words"), SILENCES.values(), ids=SILENCES)
def test_each_silence_of_an_idle_server_has_a_bound_of_its_own(
    who: str, heard: dict[str, object], restarted: set[str], bound: float, words: str
) -> None:
    world = ready()
    no_canary(world)
    world.starts.clear()
    role = getattr(world, who)
    role.forced.update(heard)
    role.progressing = False
    begun = world.now
    while not world.state.charges and world.now - begun < 300:
        world.step()
    assert bound <= world.now - begun <= bound + 1
    assert words in world.state.cause
    role.forced.clear()
    role.progressing = True
    world.canary_due = 0
    world.run(100, StateName.READY)
    assert {name for _, name in world.starts} == restarted


def test_a_front_that_computes_is_waited_for_longer_than_one_that_is_stuck() -> None:
    """A busy machine is no reason to cut every stream; a loop without an end is."""
    world = ready()
    no_canary(world)
    world.starts.clear()
    world.front.forced["ready"] = Answer.SILENT
    begun = world.now
    while not world.state.charges and world.now - begun < 300:
        world.front.forced["worked"] = world.now
        world.step()
    assert LIMITS.silent_timeout <= world.now - begun <= LIMITS.silent_timeout + 1


def test_a_front_that_starts_slowly_is_waited_for_while_it_works() -> None:
    """On a starved machine its libraries alone took over a minute to load."""
    world = Simulation()
    world.front.load_s = LIMITS.silent_timeout * 2
    for _ in range(int(LIMITS.silent_timeout * 2 / 0.25) + 40):
        world.front.forced["worked"] = world.now
        world.step()
    assert [name for _, name in world.starts].count("front") == 1
    assert world.state.name is StateName.READY


def test_nothing_is_served_without_the_front() -> None:
    """However well the servers are: READY needs a front that answers, and a request that came through this one."""
    world = ready()
    world.front.load_s = None
    world.die(world.front)
    world.run(2)
    assert (world.state.name, "front: " in world.state.reason) == (StateName.RECOVERING, True), world.state
    sent = world.canary.sent or 0.0
    world.front.load_s = 0.5
    world.run(30, StateName.READY)
    assert world.state.name is StateName.READY
    assert (world.canary.sent or 0.0) > sent


@pytest.mark.parametrize("heard", [Answer.NO, Answer.SILENT])
def test_the_router_is_not_blamed_for_a_silent_server(heard: Answer) -> None:
    """It finds that server unhealthy, or waits for it, and is right."""
    world = ready()
    no_canary(world)
    world.starts.clear()
    world.prefill.forced["ready"] = Answer.SILENT
    world.router.forced["ready"] = heard
    world.prefill.progressing = False
    world.run(LIMITS.silent_timeout + 2)
    assert [name for _, name in world.starts] == ["prefill"]


def test_a_silent_bootstrap_port_has_a_bound() -> None:
    world = ready()
    no_canary(world)
    world.starts.clear()
    world.observation["bootstrap"] = Answer.SILENT
    world.run(LIMITS.silent_timeout - 1)
    assert (world.state.name, world.starts) == (StateName.DEGRADED, [])
    world.run(3)
    assert [name for _, name in world.starts] == ["prefill"]
    assert "bootstrap port" in world.state.cause


def test_the_bounds_of_silences_are_tens_of_seconds_and_not_those_of_starts() -> None:
    assert 10 <= LIMITS.unready_timeout <= LIMITS.silent_timeout <= 60 < LIMITS.stall_timeout


@pytest.mark.parametrize("probe", ["prefill", "decode", "router", "front", "bootstrap", "/health"])
def test_one_silent_probe_of_any_kind_degrades_and_no_more(probe: str) -> None:
    world = ready()
    world.history.clear()
    if probe == "bootstrap":
        world.observation["bootstrap"] = Answer.SILENT
    elif probe == "/health":
        world.decode.forced["health"] = Answer.SILENT
    else:
        getattr(world, probe).forced["ready"] = Answer.SILENT
    world.history = [world.state.name]
    world.run(2)
    world.observation.clear()
    for role in world.roles:
        role.forced.clear()
    world.run(2)
    assert world.history == ["READY", "DEGRADED", "READY"]


@pytest.mark.parametrize(
    "heard",
    [{"ready": Answer.NO}, {"ready": Answer.SILENT, "health": Answer.SILENT}, {"health": Answer.NO}],
    ids=["/ready says no", "nothing is answered in time", "/health fails"],
)
def test_a_server_whose_tokens_move_is_never_restarted(heard: dict[str, object]) -> None:
    """However long, and whatever its log says."""
    world = ready()
    no_canary(world)
    world.starts.clear()
    world.prefill.forced.update(heard)
    for _ in range(30):
        world.says(world.prefill, Remedy.RESTART_PAIR, "said so")
        world.run(60)
    assert not world.starts
    assert world.state.name in (SERVING | {StateName.RECOVERING})


def test_a_silence_starts_again_when_tokens_move() -> None:
    world = ready()
    no_canary(world)
    world.starts.clear()
    world.decode.forced["ready"] = Answer.NO
    for _ in range(6):
        world.decode.progressing = False
        world.run(LIMITS.unready_timeout - 5)
        world.decode.progressing = True
        world.run(1)
    assert not world.starts


def test_a_compiling_server_is_waited_for_within_a_bound_of_its_own() -> None:
    world = ready()
    no_canary(world)
    world.starts.clear()
    world.prefill.forced.update(ready=Answer.NO, health=Answer.NO)
    world.prefill.progressing = False
    begun = world.now
    while not world.starts and world.now - begun < 2 * LIMITS.compile_timeout:
        world.prefill.compiling = (begun, world.now)
        world.step()
    waited = world.now - begun
    assert LIMITS.compile_timeout <= waited <= LIMITS.compile_timeout + LIMITS.unready_timeout + 1
    assert [name for _, name in world.starts] == ["prefill"]


def test_a_start_that_compiles_longer_than_the_stall_timeout_is_waited_for() -> None:
    world = Simulation()
    world.decode.load_s = 2 * LIMITS.stall_timeout
    world.decode.progressing = False
    world.run(1)
    begun = world.now
    while world.state.name is not StateName.READY and world.now - begun < 3 * LIMITS.stall_timeout:
        world.decode.compiling = (begun, world.now)
        world.step()
    assert world.state.name is StateName.READY
    assert len(world.starts) == len(world.roles)


def test_a_canary_that_comes_through_ends_a_silence() -> None:
    """/ready is silent for minutes, and requests are served: nothing to fix."""
    world = ready()
    world.starts.clear()
    world.decode.forced["ready"] = Answer.SILENT
    world.decode.progressing = False
    world.run(900)
    assert not world.starts
    assert world.state.name is StateName.DEGRADED


# --- fatal lines ------------------------------------------------------------------------------------------------------

REMEDIES = [(remedy, code) for remedy in Remedy for code in (1, 70)]


@pytest.mark.parametrize(("remedy", "code"), REMEDIES)
def test_a_fatal_line_of_a_server_that_served_does_nothing_by_itself(remedy: Remedy, code: int) -> None:
    """A client can make it log almost any text."""
    world = ready()
    world.starts.clear()
    for _ in range(120):
        world.says(world.prefill, remedy, "said so", code)
        world.says(world.decode, remedy, "said so", code)
        world.run(10)
    assert world.state.name is StateName.READY
    assert not world.starts
    assert not world.state.charges


def test_a_fatal_line_has_a_canary_sent_at_once_but_not_many() -> None:
    world = ready()
    world.run(10)
    before = world.canary_sent
    flights = set()
    for _ in range(80):  # twenty seconds
        world.says(world.decode, Remedy.RESTART_ROLE, "said so")
        world.step()
        flights.add(world.canary_sent)
    assert min(flights - {before}) - before < 12
    assert len(flights - {before}) <= 5


@pytest.mark.parametrize(("remedy", "code"), REMEDIES)
def test_a_fatal_line_explains_a_death_and_its_exit_code_stays_ours(remedy: Remedy, code: int) -> None:
    world = ready()
    world.starts.clear()
    for _ in range(LIMITS.restart_limit + 1):
        world.says(world.decode, remedy, "said so", code)
        world.run(3)
        world.die(world.decode)
        world.step()
        world.run(100, StateName.READY, StateName.FAILED)
    assert (world.verdict().code, world.state.name) == (1, StateName.FAILED)
    assert "decode exited with code 3 (said so)" in world.verdict().cause
    assert {name for _, name in world.starts} == {"decode"}


def test_a_line_that_only_explains_never_decides() -> None:
    """NCCL warns of what it then does otherwise; a start that goes on is not touched."""
    world = Simulation()
    world.decode.load_s = 60.0
    world.run(10)
    world.says(world.decode, Remedy.EXPLAIN, "NCCL warned: x")
    world.run(100, StateName.READY)
    assert world.state.name is StateName.READY and not world.state.charges
    world.says(world.decode, Remedy.EXPLAIN, "NCCL warned: y")
    world.die(world.decode)
    world.step()
    assert "(NCCL warned: y)" in world.state.cause
    start = Simulation()
    start.decode.load_s = 60.0
    start.run(10)
    start.says(start.decode, Remedy.EXPLAIN, "a kernel asserts: i < n")
    start.die(start.decode)
    start.step()
    assert "(a kernel asserts: i < n)" in start.state.cause and start.state.name is StateName.RECOVERING


def test_an_error_that_only_a_reset_fixes_ends_it_once_the_server_is_down() -> None:
    world = ready()
    world.decode.forced["gpu_fault"] = "GPU GPU-5: Xid 119, the card's system processor (GSP) does not answer; reset"
    world.run(60)
    assert world.state.name is StateName.READY, "it serves, and that is the proof"
    world.starts.clear()
    world.die(world.decode)
    world.step()
    assert (world.verdict().code, world.verdict().role) == (70, "decode") and "Xid 119" in world.verdict().cause
    assert world.starts == [], "no start is tried on that card"


def test_a_card_s_error_stands_beside_the_death_that_it_came_with() -> None:
    world = ready()
    world.decode.forced["gpu_note"] = (world.now, "GPU GPU-5: Xid 31, a kernel touched memory that is not its own")
    world.die(world.decode)
    world.step()
    assert "Xid 31" in world.state.cause and world.state.name is StateName.RECOVERING
    later = ready()
    later.decode.forced["gpu_note"] = (later.now - 300, "GPU GPU-5: Xid 31")
    later.die(later.decode)
    later.step()
    assert "Xid" not in later.state.cause, "an old one says nothing of it"


def test_an_old_line_does_not_explain_a_later_failure() -> None:
    world = ready()
    world.says(world.decode, Remedy.EXIT, "no NVIDIA driver", 70)
    world.run(60)
    world.die(world.decode)
    world.step()
    assert world.state.cause == "decode exited with code 3"


def test_a_line_and_a_canary_that_fails_once_are_a_doubt_as_without_the_line() -> None:
    """A client may write the line, and make one canary late by load."""
    world = ready()
    world.starts.clear()
    world.says(world.decode, Remedy.EXIT, "no NVIDIA driver", 70)
    world.observation["canary"] = replace(world.canary, failures=1, failure="link from prefill to decode")
    world.run(20)
    assert (world.state.name, world.starts) == (StateName.DEGRADED, [])


def test_a_line_explains_what_the_canary_found() -> None:
    world = ready()
    world.says(world.decode, Remedy.EXIT, "prefill and decode disagree", 70)
    world.link = False
    world.run(40, StateName.RECOVERING)
    world.run(1)
    assert "link from prefill to decode" in world.state.cause
    assert "decode logged (prefill and decode disagree)" in world.state.cause
    assert world.state.verdict is None


@pytest.mark.parametrize("remedy", [one for one in Remedy if one is not Remedy.EXPLAIN])
def test_a_line_shortens_the_wait_for_a_server_that_says_no_afterwards(remedy: Remedy) -> None:
    world = ready()
    world.starts.clear()
    world.decode.progressing = False
    world.run(1)
    world.says(world.decode, remedy, "its scheduler hit an exception", 70)
    world.decode.forced["ready"] = Answer.NO
    world.run(1)
    world.decode.forced.clear()
    world.decode.progressing = True
    assert "decode: /ready says no (its scheduler hit an exception)" in world.state.cause
    world.run(60, StateName.READY)
    assert {name for _, name in world.starts} == {"decode"}, "a line never widens a restart"
    assert len(world.state.charges) == 1


def test_only_a_no_to_a_question_that_was_asked_after_the_line_bears_it_out() -> None:
    said = Complaint(Remedy.RESTART_ROLE, "said so", at=100.0)
    role = RoleView("decode", True, False, Answer.NO, 0, 10.0, 10.0, served=True, worked=50.0, complaint=said)
    seen = Observation(105.0, (role, role), role)
    for refused, decides in ((99.0, False), (101.0, True)):
        assert (complaints.borne_out(replace(role, refused=refused), seen, LIMITS) is said) is decides
        start = replace(role, served=False, refused=refused)
        assert (complaints.deciding(start) is said) is decides
    assert complaints.borne_out(replace(role, refused=101.0, ready=Answer.SILENT), seen, LIMITS) is None


def test_a_server_that_has_never_said_yes_is_not_taken_to_serve_because_it_is_silent() -> None:
    role = RoleView("decode", True, False, Answer.SILENT, 0, 10.0, 10.0)
    assert not conditions.can_serve(role)
    assert conditions.can_serve(replace(role, served=True))
    assert not conditions.can_serve(replace(role, served=True, up=False))


def test_a_line_before_the_first_yes_decides_once_ready_says_no_after_it() -> None:
    world = Simulation()
    world.run(5)
    world.prefill.forced["ready"] = Answer.SILENT  # not known to be down: a yes may be on its way
    world.says(world.prefill, Remedy.EXIT, "no memory left for KV")
    world.run(5)
    assert world.state.name is not StateName.FAILED
    world.prefill.forced.clear()
    world.run(1)
    assert (world.state.name, world.verdict().code) == (StateName.FAILED, 1)


@pytest.mark.parametrize(
    ("remedy", "restarted"), [(Remedy.RESTART_ROLE, {"decode"}), (Remedy.RESTART_PAIR, {"prefill", "decode"})]
)
def test_a_fatal_line_of_a_start_restarts_before_the_process_has_ended(remedy: Remedy, restarted: set[str]) -> None:
    world = Simulation()
    world.run(5)
    world.starts.clear()
    world.says(world.decode, remedy, "its scheduler hit an exception")
    world.run(60, StateName.READY)
    assert {name for _, name in world.starts} == restarted
    assert len(world.state.charges) == 1


# --- the first cause --------------------------------------------------------------------------------------------------


def test_a_lost_scheduler_is_the_cause_and_what_follows_is_not() -> None:
    world = ready()
    world.starts.clear()
    world.decode.forced["lost"] = "its scheduler was ended by SIGKILL"
    world.step()
    assert world.state.name is StateName.RECOVERING
    assert world.state.cause == "decode: its scheduler was ended by SIGKILL"
    world.step()
    del world.decode.forced["lost"]
    for _ in range(40):
        world.step()
        assert "its scheduler was ended by SIGKILL" in world.state.reason
        assert world.state.reason.index("SIGKILL") < 60, "what began it stands first"
    world.run(60, StateName.READY)
    assert [name for _, name in world.starts] == ["decode"]
    assert len(world.state.charges) == 1


def test_the_last_word_names_what_began_it() -> None:
    world = ready()
    world.decode.forced["lost"] = "its scheduler was ended by SIGSEGV"
    world.step()
    world.step()
    world.decode.forced.clear()
    world.decode.load_s = None
    world.decode.life_s = 3.0
    world.run(300, StateName.FAILED)
    assert "decode exited with code 3; 3 restart(s) did not help" in world.verdict().cause
    assert "it began with: decode: its scheduler was ended by SIGSEGV" in world.verdict().cause


# --- requests that wait for a peer that is gone -----------------------------------------------------------------------


def test_what_waits_in_prefill_for_a_dead_decode_is_ended_at_once_and_for_a_while() -> None:
    world = ready()
    world.die(world.decode)
    died = world.now
    world.step()
    world.run(60, StateName.READY)
    times = [at for at, name in world.aborted if name == "prefill"]
    assert times[0] - died <= 2 * TICK
    assert LIMITS.abort_window - 1 <= times[-1] - died <= LIMITS.abort_window
    assert {name for _, name in world.aborted} == {"prefill"}
    world.run(100)
    assert times[-1] == [at for at, _ in world.aborted][-1], "never while decode is ready"


@pytest.mark.parametrize("load_s", [3.0, 100.0])
def test_nothing_is_aborted_once_decode_is_ready_nor_long_after_its_death(load_s: float) -> None:
    world = ready()
    world.decode.load_s = load_s
    world.die(world.decode)
    died = world.now
    world.run(150, "-")
    assert max(at for at, _ in world.aborted) <= died + min(load_s, LIMITS.abort_window) + 3 * TICK


@pytest.mark.parametrize("dead", ["prefill", "router"])
def test_what_decode_computes_is_never_ended_for_the_death_of_another(dead: str) -> None:
    world = ready()
    world.die(getattr(world, dead))
    world.run(100)
    assert not world.aborted


def test_nothing_is_aborted_on_a_first_start() -> None:
    world = ready()
    assert not world.aborted


def test_a_model_that_changed_on_the_disk_is_loaded_by_both() -> None:
    """A server that comes back with other weights than its peer's answers, and answers wrong."""
    world = ready()
    world.starts.clear()
    world.files = "v2"
    world.run(300)
    assert not world.starts, "what runs is whole, and stays"
    world.die(world.decode)
    world.step()
    world.run(120, StateName.READY)
    assert [name for _, name in world.starts] == ["decode", "prefill"]
    assert world.prefill.model == world.decode.model == "v2"


def test_an_unknown_model_is_no_reason_to_restart() -> None:
    world = ready()
    world.prefill.model = ""
    world.starts.clear()
    world.run(300)
    assert not world.starts


def test_restarts_outside_the_window_are_forgiven() -> None:
    world = ready()
    for _ in range(8):
        world.run(LIMITS.restart_window / LIMITS.restart_limit + 60, "-")
        world.die(world.decode)
        world.run(60, StateName.READY)
        assert world.state.name is StateName.READY


def test_a_proof_that_grows_old_is_a_doubt() -> None:
    world = ready()
    world.canary_due = world.now + 1e6
    world.run(LIMITS.proof_timeout + 1)
    assert world.state.name is StateName.DEGRADED


# --- stopping --------------------------------------------------------------------------------------------------------

MOMENTS: list[tuple[str, float]] = [("load", 5.0), ("ready", 60.0)]


@pytest.mark.parametrize("seconds", [row[1] for row in MOMENTS], ids=[row[0] for row in MOMENTS])
def test_a_stop_ends_clean_at_any_moment(seconds: float) -> None:
    world = Simulation()
    world.run(seconds)
    world.observation["stop"] = "stopped on request"
    acts: list[Act] = []
    begun = world.now
    while not world.shut:
        world.step()
        acts += [action.act for action in world.actions]
    assert world.verdict().code == 0
    assert world.now - begun < 8
    assert acts.index(Act.STOP) < acts.index(Act.KILL) < acts.index(Act.SHUTDOWN)


def test_a_stop_during_recovery() -> None:
    world = ready()
    world.die(world.decode)
    world.run(3)
    world.observation["stop"] = "stopped on request"
    world.run(20)
    assert world.shut
    assert world.verdict().code == 0


def test_the_drain_is_bounded() -> None:
    world = ready()
    world.observation["stop"] = "stopped on request"
    world.router.forced["up"] = True  # a request that never ends keeps it alive
    assert world.run(100) <= LIMITS.drain_timeout + 7
    assert world.shut


# --- any sequence at all ---------------------------------------------------------------------------------------------

ANSWERS = st.sampled_from(list(Answer))
ROLES = st.sampled_from(["prefill", "decode", "router", "front"])
SMALL = Limits(start_timeout=300, stall_timeout=60, restart_limit=3, restart_window=600, link_timeout=5)


class AnySequence(RuleBasedStateMachine):
    """Whatever is observed in whatever order: no false READY, no budget exceeded, and it always comes to an end."""

    @initialize(safe=st.booleans())
    def begin(self, safe: bool) -> None:
        self.world = Simulation(SMALL, "asked" if safe else None)
        self.decisions = 0

    @rule(name=ROLES)
    def dies(self, name: str) -> None:
        role = getattr(self.world, name)
        if role.up:
            self.world.die(role)

    @rule(name=ROLES, ready=ANSWERS, health=ANSWERS)
    def answers(self, name: str, ready: Answer, health: Answer) -> None:
        getattr(self.world, name).forced.update(ready=ready, health=health)

    @rule(name=ROLES)
    def is_itself_again(self, name: str) -> None:
        getattr(self.world, name).forced.clear()
        getattr(self.world, name).progressing = True

    @rule(name=ROLES)
    def stalls(self, name: str) -> None:
        getattr(self.world, name).progressing = False

    @rule(name=ROLES, load=st.none() | st.floats(1, 400), life=st.none() | st.floats(0.1, 100))
    def changes(self, name: str, load: float | None, life: float | None) -> None:
        role = getattr(self.world, name)
        role.load_s, role.life_s = load, life

    @rule(name=st.sampled_from(["prefill", "decode"]), remedy=st.sampled_from(list(Remedy)))
    def complains(self, name: str, remedy: Remedy) -> None:
        self.world.says(getattr(self.world, name), remedy, "said so", 77)

    @rule(name=st.sampled_from(["prefill", "decode"]))
    def loses_its_scheduler(self, name: str) -> None:
        if getattr(self.world, name).up:
            getattr(self.world, name).forced["lost"] = "its scheduler was ended by SIGKILL"

    @rule(name=st.sampled_from(["prefill", "decode"]), ago=st.floats(0, 1000))
    def compiles(self, name: str, ago: float) -> None:
        getattr(self.world, name).compiling = (self.world.now - ago, self.world.now)

    @rule(name=st.sampled_from(["prefill", "decode"]))
    def finds_its_gpu_held(self, name: str) -> None:
        getattr(self.world, name).forced["gpu_holder"] = "GPU 0: held by process 7"

    @rule(bootstrap=ANSWERS, missing=st.sampled_from([(), ("dsv4-kernels in decode",)]))
    def sees(self, bootstrap: Answer, missing: tuple[str, ...]) -> None:
        self.world.observation.update(bootstrap=bootstrap, missing_proof=missing)

    @rule(files=st.sampled_from(["v1", "v2", ""]))
    def finds_other_files(self, files: str) -> None:
        self.world.files = files

    @rule(link=st.booleans())
    def link(self, link: bool) -> None:
        self.world.link = link

    @rule(seconds=st.floats(0.2, 400))
    def time_passes(self, seconds: float) -> None:
        end = self.world.now + seconds
        while self.world.now < end and not self.world.shut:
            self.world.step()
            self.check()

    @precondition(lambda self: self.decisions > 20)
    @rule()
    def is_asked_to_stop(self) -> None:
        self.world.observation["stop"] = "asked"

    @invariant()
    def counts(self) -> None:
        self.decisions = getattr(self, "decisions", 0) + 1

    def check(self) -> None:
        """After each decision."""
        world, state = self.world, self.world.state
        recent = [at for at in state.charges if world.now - at < SMALL.restart_window]
        assert len(recent) <= SMALL.restart_limit
        assert state.failures <= SMALL.restart_limit
        assert (state.verdict is not None) == (state.name in CLOSING)
        if state.name is StateName.READY:
            seen = world.observe()
            newest = max(role.started for role in seen.roles)
            assert all(role.up and role.ready is Answer.YES for role in seen.roles)
            assert seen.bootstrap is Answer.YES
            assert not seen.missing_proof
            assert len({role.model for role in seen.servers} - {""}) < 2
            assert seen.canary.sent is not None
            assert seen.canary.sent >= newest
            assert not seen.canary.failures
            assert all(role.health is Answer.YES for role in seen.servers)
        if state.verdict and state.verdict.code == 77:
            assert not getattr(world, str(state.verdict.role)).served, "a line of a server that served ended it all"
        for action in world.actions:
            if action.act is Act.ABORT:
                assert action.name == "prefill"
                assert not world.decode.up or world.observe().servers[1].ready is Answer.NO
        if state.name in SERVING:
            assert all(role.up for role in world.roles)
        if state.name is StateName.SAFE:
            assert {name for _, name in world.starts} <= {"front"}, "it says why nothing is served, and no more"

    def teardown(self) -> None:
        """From anywhere: when the world stays as it is, the state settles within the bounds."""
        if not hasattr(self, "world"):
            return
        bound = SMALL.start_timeout + (SMALL.restart_limit + 1) * SMALL.stall_timeout + 200
        for _ in range(int(bound / TICK)):
            if self.world.shut:
                break
            self.world.step()
            self.check()
        allowed = {StateName.READY, StateName.DEGRADED, StateName.SAFE} | CLOSING
        living = any(role.life_s is not None for role in self.world.roles)  # may die again at any time
        assert self.world.state.name in allowed or living, self.world.state
        assert self.world.shut or self.world.state.name not in CLOSING


AnySequence.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestAnySequence = AnySequence.TestCase


def test_canary_view_of_an_old_pair_proves_nothing() -> None:
    """The proof must be younger than the youngest program."""
    world = ready()
    sent = world.canary.sent
    assert sent is not None
    world.die(world.decode)
    world.observation["canary"] = CanaryView(sent, world.now + 1e6)
    world.run(200, "-")
    assert StateName.READY not in world.history[world.history.index(StateName.RECOVERING) :]
