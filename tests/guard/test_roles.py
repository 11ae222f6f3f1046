"""The guards of an appliance on several hosts: what a member is by itself, and what a router's guard may not do."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.guard.config import Limits, ServerConfig
from dsv4_pd.run.guard.decide.policy import next_state
from dsv4_pd.run.guard.decide.states import Act, Answer, CanaryView, Observation, PathView, RoleView, State, initial
from dsv4_pd.run.guard.senses.answers import Answers
from dsv4_pd.run.guard.senses.elsewhere import Elsewhere, Told, bar, parse
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.states import StateName
from guard.test_world import Probes, seeing

LIMITS = Limits(start_timeout=math.inf)  # as a router is told
NOTHING = CanaryView()
UP = RoleView("decode", True, False, Answer.YES, 0, 1.0, 1.0, served=True, serving_since=1.0, worked=1e9)
ROUTER = replace(UP, name="router")
REMOTE = replace(UP, remote=True)


def step(state: State, seen: Observation) -> tuple[State, set[tuple[Act, str]]]:
    after, actions = next_state(state, seen, LIMITS)
    return after, {(action.act, action.name) for action in actions}


def alone(now: float, canary: CanaryView = NOTHING, **more: object) -> Observation:
    return Observation(now, (replace(UP, **more),), None, canary)  # type: ignore[arg-type]


def test_a_member_with_no_router_in_sight_is_ready_to_be_joined() -> None:
    state, _ = step(initial(0.0), alone(10.0))
    assert state.name is StateName.JOINABLE and "ready to be joined" in state.reason
    state, _ = step(state, alone(20.0, CanaryView(proved=19.0)))
    assert state.name is StateName.READY
    state, _ = step(state, alone(20.0 + LIMITS.proof_timeout, CanaryView(proved=19.0)))
    assert state.name is StateName.JOINABLE


def test_a_member_that_is_stopped_finishes_what_it_holds() -> None:
    state, acts = step(initial(0.0), alone(10.0))
    state, acts = step(state, replace(alone(11.0), stop="TERM"))
    assert state.name is StateName.STOPPING and not acts, "the router has to see it first"
    _, acts = step(state, replace(alone(30.0, busy=True), stop="TERM"))
    assert not acts
    _, acts = step(state, replace(alone(30.0), stop="TERM"))
    assert acts == {(Act.KILL, "decode")}
    _, acts = step(state, replace(alone(11.0 + LIMITS.drain_timeout, busy=True), stop="TERM"))
    assert acts == {(Act.KILL, "decode")}, "no longer than DSV4_DRAIN_TIMEOUT"


def routed(now: float, decode: RoleView, canary: CanaryView = NOTHING) -> Observation:
    return Observation(now, (replace(REMOTE, name="prefill"), decode), ROUTER, canary)


def test_a_routers_guard_neither_starts_nor_ends_nor_pays_for_a_server_elsewhere() -> None:
    state, _ = step(initial(0.0), routed(10.0, REMOTE, CanaryView(9.0, 9.0)))
    assert state.name is StateName.READY
    gone = replace(REMOTE, up=False, ready=Answer.NO, deaths=1, ended=20.0, barred="no answer from http://h:8001")
    state, acts = step(state, routed(20.0, gone))
    assert state.name is StateName.RECOVERING and "no answer from http://h:8001" in state.reason
    assert acts == {(Act.REGISTER, "router"), (Act.ABORT, "prefill")} and not state.charges
    for minutes in range(1, 600):
        state, acts = step(state, routed(20.0 + 60 * minutes, gone))
        assert not {act for act, _ in acts} & {Act.START, Act.KILL, Act.SHUTDOWN}
        assert state.name is StateName.RECOVERING, "it waits for as long as it takes"
    state, _ = step(state, replace(routed(99999.0, REMOTE), stop="TERM"))
    _, acts = step(state, replace(routed(99999.0 + LIMITS.drain_timeout, REMOTE), stop="TERM"))
    assert acts == {(Act.KILL, "router")}


def test_a_link_that_fails_between_hosts_is_told_and_not_repaired() -> None:
    failing = CanaryView(9.0, 9.0, 2, "link from prefill to decode: no answer within 10 s")
    state, _ = step(initial(0.0), routed(10.0, REMOTE, CanaryView(9.0, 9.0)))
    for now in range(20, 200, 20):
        state, acts = step(state, routed(float(now), REMOTE, failing))
        assert not {act for act, _ in acts} & {Act.START, Act.KILL}
    assert state.name is StateName.RECOVERING and "link from prefill to decode" in state.reason and not state.charges
    paths = (PathView(("prefill", "decode"), failing), PathView(("prefill", "decode-2"), CanaryView(9.0, 19.0)))
    several = Observation(20.0, (replace(REMOTE, name="prefill"), REMOTE, replace(REMOTE, name="decode-2")),
                          ROUTER, CanaryView(9.0, 19.0), paths)  # fmt: skip
    state, acts = step(initial(0.0), several)
    assert not {act for act, _ in acts} & {Act.START, Act.KILL}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Told("JOINABLE", "decode", 7, "", ""), ""),
        (Told("STOPPING", "decode", 7, "", ""), "is leaving (STOPPING)"),
        (Told("LOADING", "decode", 7, "weights 4 %", ""), "LOADING: weights 4 %"),
        (Told("RECOVERING", "decode", 0, "", "was ended"), "not running (was ended)"),
        (Told("READY", "prefill", 7, "", ""), "is a prefill, and listed as a decode"),
        (Told("READY", "", 0, "", ""), "is a whole appliance, and listed as a decode"),
    ],
)  # fmt: skip
def test_who_gets_no_requests(told: Told, words: str) -> None:
    assert bar(ServerConfig("decode-2", "http://h:1", "", role="decode", ops_url="http://h:2"), told) == words


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": 1}', '{"state": "READY", "roles": 3}'])
def test_what_is_no_status_says_nothing(text: str) -> None:
    assert parse(text) is None


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A router's, which has heard of no member yet."""
    servers = tuple(
        ServerConfig(name, f"http://{name}:1", "", role=name, ops_url=f"http://{name}:2")
        for name in ("prefill", "decode")
    )
    return seeing(tmp_path, servers=servers)[0]


def looked(world: World, *documents: dict[str, Any]) -> list[str]:
    """Why each member may get no requests, after its guard has told this."""
    probes: Any = Probes()
    seen = Elsewhere(world, Answers(world, probes), probes)
    for server, document in zip(world.config.servers, documents, strict=True):
        told = parse(json.dumps(document))
        assert told is not None
        seen._take(server, told, 1.0)
    return [world.servers[server.name].barred for server in world.config.servers]


def telling(role: str, **flags: str) -> dict[str, Any]:
    told = {"revision": "aaaa", "page-size": "256", "kv-cache-dtype": "fp8_e4m3"}
    return {
        "state": "JOINABLE",
        "roles": {role: {"role": role, "pid": 7, "detail": "", "last_exit": None}},
        "agreement": {**told, **{name.replace("_", "-"): value for name, value in flags.items()}},
    }


@pytest.mark.parametrize(
    ("flag", "first", "other"),
    [("revision", "aaaa", "bbbb"), ("page_size", "256", "64"), ("kv_cache_dtype", "fp8_e4m3", "bfloat16"),
     ("chat_template", "unset", "0123456789ab")],
)  # fmt: skip
def test_a_member_that_comes_with_something_else_is_refused_with_both_values(
    world: World, flag: str, first: str, other: str
) -> None:
    prefill, decode = looked(world, telling("prefill"), telling("decode", **{flag: other}))
    assert not prefill and decode == f"refused: --{flag.replace('_', '-')} {first} for prefill, {other} for decode"
    assert [one.name for one in world.admitted] == ["prefill"]
    assert looked(world, telling("prefill"), telling("decode")) == ["", ""], "it may come back as the others are"


def test_who_tells_nothing_is_not_admitted(world: World) -> None:
    silent = {**telling("decode"), "agreement": None}
    assert looked(world, telling("prefill"), silent) == ["", "has not told what it serves with"]
