"""The senses and the hands over probes that answer on order: what is asked, what is not, and what is made of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_pd.plan.guard_config import ServerConfig
from dsv4_pd.run.guard import abort, canary, hands, traffic, tree, workers
from dsv4_pd.run.guard.canary import CanaryResult
from dsv4_pd.run.guard.states import Act, Action, Answer
from dsv4_pd.run.guard.world import TOKENS, World
from guard.appliance import Appliance


class Probes:
    """Answers YES to everything but what a test says otherwise; keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Answer] = {}
        self.samples: dict[str, float] = {}
        self.registered: list[dict[str, Any]] = []
        self.client = SimpleNamespace()

    async def status(self, url: str, *_: object) -> Answer:
        self.asked.append(url)
        return next((answer for part, answer in self.answers.items() if part in url), Answer.YES)

    async def router(self, url: str, *_: object) -> tuple[Answer, str]:
        return await self.status(f"{url}/readiness"), ""

    async def metrics(self, _: str) -> dict[str, float]:
        return self.samples

    async def reconcile(
        self, _: str, servers: Iterable[ServerConfig], api_key: str | None, *__: object
    ) -> tuple[str, ...]:
        self.registered += [workers.entry(server, api_key) for server in servers]
        return ()


def seeing(folder: Path, **changes: Any) -> tuple[World, Probes]:
    """A world whose servers and router have served for an hour, and serve."""
    probes = Probes()
    config = replace(Appliance(folder).config, **changes)
    found = World(config, None, probes, None, lambda: None)  # type: ignore[arg-type]
    ago = time.monotonic() - 3600
    for number, watch in enumerate((*found.servers.values(), found.router)):
        watch.on_event("RUNNING", ago, os.getpid() + number)
        watch.on_ready(Answer.YES, ago)
    found.servers["prefill"].bootstrap = Answer.YES
    return found, probes


def run(task: Coroutine[Any, Any, None]) -> None:
    asyncio.run(task)


# --- a silent server is still probed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ready", "bootstrap", "router"),
    [
        (Answer.YES, Answer.YES, Answer.YES),
        (Answer.SILENT, Answer.YES, Answer.YES),
        (Answer.NO, Answer.NO, Answer.NO),
    ],
)
def test_what_is_heard_of_bootstrap_and_router_while_prefill_is_silent(
    tmp_path: Path, ready: Answer, bootstrap: Answer, router: Answer
) -> None:
    """A probe that is not answered is no "no", of whomever it asks."""
    seen, _ = seeing(tmp_path)
    seen.servers["prefill"].on_ready(ready, time.monotonic())
    run(seen._probe_bootstrap(seen.config.servers[0]))
    run(seen._probe_router())
    assert (seen.servers["prefill"].bootstrap, seen.router.ready) == (bootstrap, router)


@pytest.mark.parametrize("part", ["/readiness", "bootstrap"])
def test_a_time_out_of_bootstrap_and_router_is_silence(tmp_path: Path, part: str) -> None:
    seen, probes = seeing(tmp_path)
    probes.answers = {"/health": Answer.SILENT, "/readiness": Answer.SILENT}
    run(seen._probe_bootstrap(seen.config.servers[0]))
    run(seen._probe_router())
    assert (seen.servers["prefill"].bootstrap, seen.router.ready) == (Answer.SILENT, Answer.SILENT)


def test_when_a_no_was_asked_is_kept(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path)
    probes.answers = {"/ready": Answer.NO}
    before = time.monotonic()
    run(seen._probe_ready(seen.config.servers[1]))
    view = seen.observe().servers[1]
    assert before <= view.refused <= time.monotonic()
    assert view.detail == "/ready says no"


# --- the canary -------------------------------------------------------------------------------------------------------


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The bounds of the canaries that were sent."""
    bounds: list[float] = []

    async def send(_: object, __: object, bound: float) -> CanaryResult:
        bounds.append(bound)
        return CanaryResult(time.monotonic(), 0.1, passed=True)

    monkeypatch.setattr(canary, "send", send)
    return bounds


def test_the_first_canary_has_more_patience_than_the_later_ones(tmp_path: Path, flights: list[float]) -> None:
    seen, _ = seeing(tmp_path, canary_interval=0.0)
    run(seen._canary())
    run(seen._canary())
    limits = seen.config.limits
    assert flights == [limits.first_canary_timeout, limits.canary_timeout]


@pytest.mark.parametrize("heard", [Answer.YES, Answer.SILENT, Answer.NO])
@pytest.mark.parametrize("who", ["prefill", "router", "bootstrap"])
def test_a_canary_flies_over_ends_that_are_silent_but_not_over_one_that_says_no(
    tmp_path: Path, flights: list[float], who: str, heard: Answer
) -> None:
    seen, _ = seeing(tmp_path)
    if who == "bootstrap":
        seen.servers["prefill"].bootstrap = heard
    else:
        watch = seen.watch(who)
        assert watch
        watch.on_ready(heard, time.monotonic())
    run(seen._canary())
    assert bool(flights) is (heard is not Answer.NO)


def test_a_canary_that_failed_over_a_pair_that_is_no_more_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, _ = seeing(tmp_path)

    async def send(*_: object) -> CanaryResult:
        seen.servers["decode"].on_event("EXITED", time.monotonic(), 0, "x")
        return CanaryResult(time.monotonic(), 0.1, confirmed=True, failure="link")

    monkeypatch.setattr(canary, "send", send)
    run(seen._canary())
    assert seen.path.view.failures == 0


def failed(seen: World, *, unanswered: bool = True) -> bool:
    """Whether a canary that was sent ten seconds ago and failed just now is excused."""
    return seen._excused(CanaryResult(time.monotonic() - 10, 10, confirmed=True, failure="link", unanswered=unanswered))


def test_a_failed_canary_on_an_idle_pair_has_no_excuse(tmp_path: Path) -> None:
    assert not failed(seeing(tmp_path)[0])


def test_a_compiler_within_its_bound_excuses_a_canary(tmp_path: Path) -> None:
    seen, _ = seeing(tmp_path)
    now = time.monotonic()
    seen.servers["prefill"].compiling = (now - 12, now - 1)
    assert failed(seen)
    seen.servers["prefill"].compiling = (now - 12, now - 11)
    assert not failed(seen), "it was over before the canary was sent"
    seen.servers["prefill"].compiling = (now - seen.config.limits.compile_timeout - 10, now)
    assert not failed(seen)


def test_others_that_cross_excuse_a_canary(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path)
    for count in (3.0, 4.0):
        probes.samples = {traffic.CROSSED: count}
        run(seen._metrics(seen.config.servers[1]))
    assert failed(seen, unanswered=False)


def prefill_computes(seen: World, probes: Probes, handing: float) -> None:
    for count in (3.0, 4.0, 5.0, 6.0):
        probes.samples = {TOKENS: count, "sglang:num_prefill_inflight_queue_reqs": handing}
        run(seen._metrics(seen.config.servers[0]))


@pytest.mark.parametrize(
    ("handing", "unanswered", "excused"), [(0.0, True, True), (2.0, True, False), (0.0, False, False)]
)
def test_only_a_canary_that_waits_for_prefill_is_excused_by_its_tokens(
    tmp_path: Path, handing: float, unanswered: bool, excused: bool
) -> None:
    seen, probes = seeing(tmp_path)
    seen.servers["prefill"].counter, seen.servers["prefill"]._sampled = 1.0, time.monotonic() - 9
    prefill_computes(seen, probes, handing)
    assert failed(seen, unanswered=unanswered) is excused


def test_first_tokens_of_decode_refresh_the_proof_and_those_of_prefill_do_not(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path)
    seen.path.on_result(CanaryResult(1.0, 0.1, passed=True), 1.0, busy=False)
    for server, fresh in ((0, False), (1, True)):
        for count in (3.0, 9.0):
            probes.samples = {traffic.CROSSED: count, "sglang:num_requests_total": count}
            run(seen._metrics(seen.config.servers[server]))
        assert (seen.path.view.proved != 1.0) is fresh


def test_finished_requests_alone_refresh_nothing(tmp_path: Path) -> None:
    """The engine counts those that it aborted among them."""
    seen, probes = seeing(tmp_path)
    seen.path.on_result(CanaryResult(1.0, 0.1, passed=True), 1.0, busy=False)
    for count in (3.0, 9.0, 20.0):
        probes.samples = {"sglang:num_requests_total": count}
        run(seen._metrics(seen.config.servers[1]))
    assert seen.path.view.proved == 1.0


# --- the hands --------------------------------------------------------------------------------------------------------


def acting(seen: World, probes: Probes) -> hands.Hands:
    return hands.Hands(seen.config, seen, None, probes)  # type: ignore[arg-type]


def test_an_abort_goes_to_the_server_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, probes = seeing(tmp_path)
    sent: list[str] = []

    async def everything(_: object, url: str) -> None:
        sent.append(url)

    monkeypatch.setattr(abort, "everything", everything)
    monkeypatch.setattr(abort, "PAUSE_S", 0.0)

    async def act() -> None:
        acting(seen, probes).apply(Action(Act.ABORT, "prefill"))
        await asyncio.sleep(0.3)

    run(act())
    assert sent == [seen.config.servers[0].url]


def test_what_the_guard_ends_is_marked_before_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, probes = seeing(tmp_path)
    monkeypatch.setattr(tree, "kill_group", lambda _: None)
    monkeypatch.setattr(tree, "members", lambda _: frozenset[int]())
    run(acting(seen, probes)._kill("decode"))
    seen.servers["decode"].on_event("EXITED", time.monotonic(), 0, "was ended by SIGKILL (likely out of memory)")
    assert "out of memory" not in seen.observe().servers[1].exit


def test_workers_are_registered_with_the_servers_key(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path, api_key="k3y")
    run(acting(seen, probes)._register(""))
    assert [worker["api_key"] for worker in probes.registered] == ["k3y", "k3y"]
