"""The senses over probes that answer on order: what is asked, what is not, and what is made of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_pd.plan.guard.config import ServerConfig
from dsv4_pd.run.guard.ask import traffic, workers
from dsv4_pd.run.guard.ask.probes import Probes as RealProbes
from dsv4_pd.run.guard.decide.states import Answer, State, initial
from dsv4_pd.run.guard.prove import canary
from dsv4_pd.run.guard.prove.canary import CanaryResult
from dsv4_pd.run.guard.senses.answers import TOKENS, Answers
from dsv4_pd.run.guard.senses.canaries import Canaries
from dsv4_pd.run.guard.tell.document import document
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.states import StateName
from dsv4_pd.verify.base import Outcome
from dsv4_pd.verify.checks import kernel_hooks
from guard.appliance import Appliance


class Probes:
    """Answers YES to everything but what a test says otherwise; keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Answer] = {}
        self.samples: dict[str, float] = {}
        self.limits: dict[str, int] = {}  # part of an address -> tokens
        self.registered: list[dict[str, Any]] = []
        self.client = SimpleNamespace()

    async def status(self, url: str, *_: object) -> Answer:
        self.asked.append(url)
        return next((answer for part, answer in self.answers.items() if part in url), Answer.YES)

    async def router(self, url: str, *_: object) -> tuple[Answer, str]:
        return await self.status(f"{url}/readiness"), ""

    async def front(self, url: str) -> tuple[Answer, str]:
        return await self.status(f"{url}/livez"), ""

    async def metrics(self, _: str) -> dict[str, float]:
        return self.samples

    async def longest(self, url: str) -> int | None:
        self.asked.append(f"{url}/v1/models")
        return next((limit for part, limit in self.limits.items() if part in url), None)

    async def reconcile(
        self, _: str, servers: Iterable[ServerConfig], api_key: str | None, *__: object
    ) -> tuple[str, ...]:
        self.registered += [workers.entry(server, api_key) for server in servers]
        return ()


def seeing(folder: Path, **changes: Any) -> tuple[World, Probes]:
    """A world whose servers, router and front have served for an hour, and serve."""
    probes = Probes()
    config = replace(Appliance(folder).config, **changes)
    found = World(config, None, probes, lambda: None)  # type: ignore[arg-type]
    ago = time.monotonic() - 3600
    for number, watch in enumerate(found.programs):
        watch.on_event("RUNNING", ago, os.getpid() + number)
        watch.on_ready(Answer.YES, ago)
    found.servers["prefill"].bootstrap = Answer.YES
    return found, probes


def answers(seen: World, probes: Probes) -> Answers:
    return Answers(seen, probes)  # type: ignore[arg-type]


def canaries(seen: World) -> Canaries:
    """Those of a test that replaces what sends them."""
    return Canaries(seen, None)  # type: ignore[arg-type]


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
def test_what_is_known_of_bootstrap_and_router_while_prefill_is_silent(
    tmp_path: Path, ready: Answer, bootstrap: Answer, router: Answer
) -> None:
    """A probe that is not answered is no "no", of whomever it asks."""
    seen, probes = seeing(tmp_path)
    seen.servers["prefill"].on_ready(ready, time.monotonic())
    run(answers(seen, probes).bootstrap(seen.config.servers[0]))
    run(answers(seen, probes).router())
    assert seen.router is not None
    assert (seen.servers["prefill"].bootstrap, seen.router.ready) == (bootstrap, router)


@pytest.mark.parametrize("part", ["/readiness", "bootstrap"])
def test_a_time_out_of_bootstrap_and_router_is_silence(tmp_path: Path, part: str) -> None:
    seen, probes = seeing(tmp_path)
    probes.answers = {"/health": Answer.SILENT, "/readiness": Answer.SILENT}
    run(answers(seen, probes).bootstrap(seen.config.servers[0]))
    run(answers(seen, probes).router())
    assert seen.router is not None
    assert (seen.servers["prefill"].bootstrap, seen.router.ready) == (Answer.SILENT, Answer.SILENT)


def test_the_longest_request_that_every_server_takes_is_published(tmp_path: Path) -> None:
    """Known when a server counts as ready; asked once for each process, and again only while it is not known."""
    seen, probes = seeing(tmp_path)
    prefill, decode = seen.config.servers[:2]
    senses = answers(seen, probes)
    assert published(seen) is None
    probes.limits = {decode.url: 4000}
    for server in (decode, prefill, decode, prefill):
        run(senses.ready(server))
    assert published(seen) == 4000 and len([url for url in probes.asked if url.endswith("/v1/models")]) == 2
    probes.limits, probes.samples = {prefill.url: 3000}, {TOKENS: 1.0}
    run(senses.metrics(prefill))
    run(senses.metrics(decode))
    assert published(seen) == 3000, "prefill did not say it at first"


@pytest.mark.parametrize(
    ("body", "limit"),
    [('{"object": "list", "data": [{"id": "m", "max_model_len": 4096}]}', 4096), ("", None), ("[]", None), ("{}", None),
     ('{"data": []}', None), ('{"data": [1]}', None), ('{"data": [{"max_model_len": null}]}', None),
     ('{"data": [{"max_model_len": "9"}]}', None), ('{"data": [{"max_model_len": 0}]}', None),
     ('{"data": {"max_model_len": 9}}', None)],
)  # fmt: skip
def test_the_longest_request_is_read_from_a_server_s_list(
    monkeypatch: pytest.MonkeyPatch, body: str, limit: int | None
) -> None:
    async def get(url: str, *_: object) -> tuple[Answer, str]:
        return (Answer.YES, body) if url == "http://x/v1/models" else (Answer.NO, "")

    real = RealProbes(None)
    monkeypatch.setattr(real, "get", get)
    assert asyncio.run(real.longest("http://x")) == limit


def published(seen: World) -> int | None:
    state = State(StateName.READY, "proved", since=0.0, down_since=0.0)
    found: int | None = document(seen.config, seen, state, ())["context_length"]
    return found


def test_when_a_no_was_asked_is_kept(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path)
    probes.answers = {"/ready": Answer.NO}
    before = time.monotonic()
    run(answers(seen, probes).ready(seen.config.servers[1]))
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
    run(canaries(seen).through_router())
    run(canaries(seen).through_router())
    limits = seen.config.limits
    assert flights == [limits.first_canary_timeout, limits.canary_timeout]


@pytest.mark.parametrize("heard", [Answer.YES, Answer.SILENT, Answer.NO])
@pytest.mark.parametrize("who", ["prefill", "router", "bootstrap"])
def test_a_canary_is_sent_to_servers_that_are_silent_but_not_to_one_that_says_no(
    tmp_path: Path, flights: list[float], who: str, heard: Answer
) -> None:
    seen, _ = seeing(tmp_path)
    if who == "bootstrap":
        seen.servers["prefill"].bootstrap = heard
    else:
        watch = seen.watch(who)
        assert watch
        watch.on_ready(heard, time.monotonic())
    run(canaries(seen).through_router())
    assert bool(flights) is (heard is not Answer.NO)


def test_a_canary_that_failed_over_a_pair_that_is_no_more_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, _ = seeing(tmp_path)

    async def send(*_: object) -> CanaryResult:
        seen.servers["decode"].on_event("EXITED", time.monotonic(), 0, "x")
        return CanaryResult(time.monotonic(), 0.1, confirmed=True, failure="link")

    monkeypatch.setattr(canary, "send", send)
    run(canaries(seen).through_router())
    assert seen.path.view.failures == 0


def failed(seen: World, *, unanswered: bool = True) -> bool:
    """Whether a canary that was sent ten seconds ago and failed just now is excused."""
    return canaries(seen).excused(
        CanaryResult(time.monotonic() - 10, 10, confirmed=True, failure="link", unanswered=unanswered)
    )


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
        run(answers(seen, probes).metrics(seen.config.servers[1]))
    assert failed(seen, unanswered=False)


def prefill_computes(seen: World, probes: Probes, handing: float) -> None:
    for count in (3.0, 4.0, 5.0, 6.0):
        probes.samples = {TOKENS: count, "sglang:num_prefill_inflight_queue_reqs": handing}
        run(answers(seen, probes).metrics(seen.config.servers[0]))


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
            run(answers(seen, probes).metrics(seen.config.servers[server]))
        assert (seen.path.view.proved != 1.0) is fresh


def test_finished_requests_alone_refresh_nothing(tmp_path: Path) -> None:
    """The engine counts those that it aborted among them."""
    seen, probes = seeing(tmp_path)
    seen.path.on_result(CanaryResult(1.0, 0.1, passed=True), 1.0, busy=False)
    for count in (3.0, 9.0, 20.0):
        probes.samples = {"sglang:num_requests_total": count}
        run(answers(seen, probes).metrics(seen.config.servers[1]))
    assert seen.path.view.proved == 1.0


async def test_a_silent_front_that_computes_has_worked_and_one_that_stands_still_has_not(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path)
    probes.answers = {"/livez": Answer.SILENT}
    assert seen.door
    seen.door.watch.pid = os.getpid()  # a process that computes: this one
    seen.door.watch.worked = 0.0
    await seen.door.probe()
    sum(range(3_000_000))
    await seen.door.probe()
    view = seen.observe().front
    assert view and (view.ready, view.worked > 0.0) == (Answer.SILENT, True)
    with subprocess.Popen(["sleep", "60"]) as idle:
        seen.door.watch.pid = idle.pid
        for _ in range(50):  # until its start is over
            seen.door.watch.worked = 0.0
            await asyncio.sleep(0.1)
            await seen.door.probe()
            if not seen.door.watch.worked:
                break
        for _ in range(3):
            await seen.door.probe()
        assert seen.door.watch.worked == 0.0
        idle.kill()


async def test_a_front_that_answers_is_asked_once_a_second(tmp_path: Path) -> None:
    seen, probes = seeing(tmp_path)
    assert seen.door
    for _ in range(5):
        await seen.door.probe()
    assert sum("/livez" in url for url in probes.asked) == 1


def test_the_certificate_s_words_on_plugins_hold_what_is_published(tmp_path: Path) -> None:
    """On the document itself: a field that nothing publishes would stay empty on every certificate."""
    found, _ = seeing(tmp_path, plugins=("dsv4-kernels", "dsv4-gate"))
    status = document(found.config, found, initial(time.monotonic()), [])
    result = kernel_hooks.check(SimpleNamespace(status=status))  # type: ignore[arg-type]
    assert result.verdict is Outcome.PASS
    assert result.details == {"plugins": ["dsv4-kernels", "dsv4-gate"], "servers": list(found.servers)}
    found.servers["decode"].unproved = ("dsv4-kernels in decode: left no record",)
    status = document(found.config, found, initial(time.monotonic()), [])
    result = kernel_hooks.check(SimpleNamespace(status=status))  # type: ignore[arg-type]
    assert result.verdict is Outcome.FAIL and result.details == {"missing": ["dsv4-kernels in decode: left no record"]}
