"""READY waits for every class of request, once for each server process, bounded in time, and for nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from dsv4_pd.plan.guard.config import GuardConfig, Limits, ServerConfig
from dsv4_pd.plan.guard.warm_up import TOKEN_IDS, body, classes, few
from dsv4_pd.run.guard.decide import conditions
from dsv4_pd.run.guard.decide.policy import next_state
from dsv4_pd.run.guard.decide.states import Answer, CanaryView, initial
from dsv4_pd.run.guard.prove.warm_up import asked, cover
from dsv4_pd.run.guard.senses.canaries import Canaries
from dsv4_pd.run.guard.tell.document import document
from dsv4_pd.run.guard.watch.compiles import Compiles
from dsv4_pd.run.guard.watch.record import Watch
from dsv4_pd.run.guard.world import World
from dsv4_pd.run.ops import own
from dsv4_pd.run.ops.exposition import render, samples
from dsv4_pd.run.ops.telemetry import ready_since
from dsv4_pd.run.states import StateName
from guard.appliance import Appliance

SIZES = {"sizes": {"chunk": 2048, "context": 8192, "running": 4}}
Reply = Callable[[str, dict[str, Any]], Coroutine[Any, Any, tuple[int, str]]]


class Client:
    """Keeps what is posted; `reply` says what comes back."""

    def __init__(self, reply: Reply) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self._reply = reply

    async def post(self, url: str, json: dict[str, Any]) -> SimpleNamespace:
        self.sent.append((url, json))
        status, text = await self._reply(url, json)
        return SimpleNamespace(status_code=status, text=text)


async def well(_: str, __: dict[str, Any]) -> tuple[int, str]:
    return 200, "{}"


def seeing(folder: Path, reply: Reply = well, **changes: Any) -> tuple[World, Client]:
    """A pair that a canary has just proved, and that has run nothing else."""
    client = Client(reply)
    config = replace(Appliance(folder).config, **{"warm_up": "all", "about": SIZES, **changes})
    world = World(config, None, SimpleNamespace(client=client), lambda: None)  # type: ignore[arg-type]
    ago = time.monotonic() - 60
    for number, watch in enumerate(world.programs):
        watch.on_event("RUNNING", ago, os.getpid() + number)
        watch.on_ready(Answer.YES, ago)
        watch.bootstrap = Answer.YES
    world.path.view = CanaryView(ago + 1, time.monotonic())
    return world, client


def state(world: World) -> tuple[StateName, str]:
    found, _ = next_state(initial(time.monotonic() - 60), world.observe(), world.config.limits)
    return found.name, found.reason


def warm(world: World) -> None:
    for route in world.warm_up.routes:
        asyncio.run(Canaries(world, None).warm(route))  # type: ignore[arg-type]


def test_ready_waits_for_it_and_clients_are_served_after_it(tmp_path: Path) -> None:
    world, client = seeing(tmp_path)
    assert state(world) == (StateName.WARMING, "prefill: waits for its warm-up")
    assert ready_since(document(world.config, world, initial(time.monotonic()), [])) is None
    warm(world)
    assert state(world)[0] is StateName.READY
    kinds = classes(2048, 8192, 4)
    assert len(client.sent) == 2 * sum(kind.count for kind in kinds)
    warm(world)
    assert len(client.sent) == 2 * sum(kind.count for kind in kinds), "once for a process"
    told = document(world.config, world, initial(time.monotonic()), [])["roles"]["decode"]["warm_up"]
    assert (told["classes"], told["done"], told["failed"], told["left"]) == (len(kinds), len(kinds), {}, 0)
    assert told["seconds"] >= 0
    assert ready_since(document(world.config, world, initial(time.monotonic()), [])) is not None


def test_without_one_nothing_changes(tmp_path: Path) -> None:
    world, _ = seeing(tmp_path, warm_up="off")
    assert world.warm_up.routes == () and state(world)[0] is StateName.READY
    assert "warm_up" not in document(world.config, world, initial(0.0), [])["roles"]["decode"]


def test_it_begins_only_when_a_canary_came_through(tmp_path: Path) -> None:
    world, client = seeing(tmp_path)
    world.path.view = CanaryView()
    warm(world)
    assert client.sent == [] and "canary" in state(world)[1]


def test_both_servers_get_the_same_request_with_a_room_of_its_own(tmp_path: Path) -> None:
    world, client = seeing(tmp_path, warm_up="few")
    warm(world)
    halves = [client.sent[at : at + 2] for at in range(0, len(client.sent), 2)]
    rooms = []
    for (first, left), (second, right) in halves:
        assert {first, second} == {f"{server.url}/generate" for server in world.config.servers}
        assert left == right and left["bootstrap_port"] == world.config.servers[0].bootstrap_port
        rooms.append(left["bootstrap_room"])
    assert len(set(rooms)) == len(rooms)


def test_a_class_that_fails_is_told_and_the_others_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def refuses(_: str, ask: dict[str, Any]) -> tuple[int, str]:
        return (400, "no grammar here") if "json_schema" in ask["sampling_params"] else (200, "{}")

    world, _ = seeing(tmp_path, refuses)
    warm(world)
    assert state(world)[0] is StateName.READY
    found = document(world.config, world, initial(time.monotonic()), [])
    told = found["roles"]["prefill"]["warm_up"]
    assert told["done"] == told["classes"] - 1 and told["left"] == 0
    assert told["failed"] == {"answer under a schema": "prefill answered 400: no grammar here"}
    assert any("answer under a schema" in record.getMessage() for record in caplog.records)
    text = render(own.families(found, {}, {}))
    counts = {s.labels["outcome"]: s.value for s in samples(text) if s.name == "dsv4_warm_up_classes"}
    assert counts == {"done": told["done"], "failed": 1.0, "left": 0.0}


def test_an_answer_that_never_comes_is_waited_for_only_so_long(tmp_path: Path) -> None:
    """One request hangs: the rest is left out, told, and READY follows."""

    async def hangs(_: str, ask: dict[str, Any]) -> tuple[int, str]:
        if len(ask["input_ids"]) > 1000:
            await asyncio.sleep(3600)
        return 200, "{}"

    limits = replace(Limits(), warm_up_silence=0.5)
    world, client = seeing(tmp_path, hangs, limits=limits)
    begun = time.monotonic()
    warm(world)
    assert time.monotonic() - begun < 30
    told = document(world.config, world, initial(time.monotonic()), [])["roles"]["prefill"]["warm_up"]
    assert told["done"] == 2 and list(told["failed"]) == ["prompt of one chunk"]
    assert told["left"] == told["classes"] - 3 and len(client.sent) == 6
    assert state(world)[0] is StateName.READY


def test_a_compiler_is_waited_for_and_the_whole_is_bounded(tmp_path: Path) -> None:
    async def hangs(_: str, __: dict[str, Any]) -> tuple[int, str]:
        await asyncio.sleep(3600)
        return 200, ""

    limits = replace(Limits(), warm_up_silence=0.1, warm_up_timeout=3.0)
    world, _ = seeing(tmp_path, hangs, limits=limits)
    world.servers["prefill"].compiling = (time.monotonic(), time.monotonic() + 600)
    begun = time.monotonic()
    warm(world)
    assert time.monotonic() - begun >= 3.0
    told = document(world.config, world, initial(time.monotonic()), [])["roles"]["decode"]["warm_up"]
    assert "more than 3 s" in told["failed"]["short prompt"]


@pytest.mark.parametrize(("compiled", "sent"), [(True, 2), (False, 1)], ids=["beside a compiler", "by itself"])
def test_a_class_that_failed_beside_a_compiler_is_sent_again(tmp_path: Path, compiled: bool, sent: int) -> None:
    """What it waited for is there now; without one the answer would be the same."""
    asks: list[str] = []

    async def too_late_once(_: str, ask: dict[str, Any]) -> tuple[int, str]:
        if ask["sampling_params"]["temperature"] and "top_k" in ask["sampling_params"]:
            asks.append("sampled")
            if len(asks) <= 2:  # one for each half
                if compiled:
                    world.servers["prefill"].on_compilers(True, time.monotonic())
                return 503, "the link between prefill and decode failed for this request"
        return 200, "{}"

    world, _ = seeing(tmp_path, too_late_once)
    warm(world)
    assert len(asks) == 2 * sent
    told = document(world.config, world, initial(time.monotonic()), [])["roles"]["prefill"]["warm_up"]
    assert (set(told["failed"]), told["left"]) == (set() if compiled else {"sampled answer"}, 0)


def test_a_server_that_ends_meanwhile_runs_it_again(tmp_path: Path) -> None:
    async def dies(_: str, __: dict[str, Any]) -> tuple[int, str]:
        if not world.servers["decode"].deaths:
            world.servers["decode"].on_event("EXITED", time.monotonic(), how="signal 9")
            world.servers["decode"].on_event("RUNNING", time.monotonic(), os.getpid() + 77)
            raise httpx2.ConnectError("refused")
        return 200, "{}"

    world, _ = seeing(tmp_path, dies)
    warm(world)
    assert world.servers["prefill"].cold and world.servers["decode"].cold
    world.servers["decode"].on_ready(Answer.YES, time.monotonic())
    world.path.view = CanaryView(time.monotonic(), time.monotonic())
    warm(world)
    assert not world.servers["prefill"].cold and not world.servers["decode"].cold


def test_a_restarted_server_is_cold_and_its_partner_is_not(tmp_path: Path) -> None:
    world, _ = seeing(tmp_path, warm_up="few")
    warm(world)
    decode = world.servers["decode"]
    decode.on_event("EXITED", time.monotonic(), how="signal 9")
    decode.on_event("RUNNING", time.monotonic(), os.getpid() + 99)
    decode.on_ready(Answer.YES, time.monotonic())
    assert [watch.name for watch in world.servers.values() if watch.cold] == ["decode"]


def test_a_guard_that_is_restarted_does_not_repeat_it(tmp_path: Path) -> None:
    world, client = seeing(tmp_path)
    for watch in world.servers.values():
        watch.on_warmed_before(watch.pid, time.monotonic() - 30)
    assert state(world)[0] is StateName.READY
    warm(world)
    assert client.sent == []


def test_no_canary_is_sent_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stand behind a compiler, and count as failed."""
    sent: list[str] = []

    async def slow(_: str, __: dict[str, Any]) -> tuple[int, str]:
        world.path.view = replace(world.path.view, sent=time.monotonic() - 1000)
        await Canaries(world, None).through_router()  # type: ignore[arg-type]
        return 200, "{}"

    async def send(*_: object) -> None:
        sent.append("canary")

    world, _ = seeing(tmp_path, slow, warm_up="few")
    monkeypatch.setattr("dsv4_pd.run.guard.prove.canary.send", send)
    world.path.view = CanaryView(time.monotonic() - 59, time.monotonic())
    warm(world)
    assert sent == [] and not world.warm_up.running


def test_its_requests_are_not_taken_for_clients(tmp_path: Path) -> None:
    world, client = seeing(tmp_path, warm_up="few")
    world.path.on_first_tokens(0.0, time.monotonic())
    proved = time.monotonic() - 50
    warm(world)
    world.path.view = replace(world.path.view, proved=proved)
    world.path.on_first_tokens(len(client.sent) / 2, time.monotonic())
    assert world.path.view.proved == proved
    world.path.on_first_tokens(len(client.sent) / 2 + 1, time.monotonic())
    assert world.path.view.proved is not None and world.path.view.proved > proved


def members(first: int, last: int) -> tuple[tuple[ServerConfig, ...], ...]:
    prefills = [ServerConfig(f"prefill-{n}", f"p{n}", "", role="prefill") for n in range(first)]
    decodes = [ServerConfig(f"decode-{n}", f"d{n}", "", role="decode") for n in range(last)]
    return tuple((one, other) for one in prefills for other in decodes)


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 3), (2, 2), (3, 2), (4, 1)])
def test_every_server_is_in_a_route_that_exists(first: int, last: int) -> None:
    routes = members(first, last)
    found = cover(routes)
    assert set(found) <= set(routes) and len(found) == max(first, last)
    assert {one for route in found for one in route} == {one for route in routes for one in route}


def test_replicas_run_it_one_by_one() -> None:
    routes = tuple((ServerConfig(f"single-{n}", f"s{n}", "", role="single"),) for n in range(3))
    assert cover(routes) == routes


def test_a_member_that_is_cold_closes_its_own_routes_alone(tmp_path: Path) -> None:
    world, _ = seeing(tmp_path)
    seen = world.observe()
    missing = [one for one in conditions.unmet(seen) if one not in conditions.before_warm_up(seen)]
    assert [(one.role, one.takes) for one in missing] == [("prefill", ("prefill",)), ("decode", ("decode",))]


@pytest.mark.parametrize("kind", [*classes(8192, 524288, 4), *few(4096, 16)], ids=lambda kind: kind.name)
def test_a_request_has_the_length_of_its_class(kind: Any) -> None:
    ask = body(kind, 0)
    assert len(ask["input_ids"]) == kind.prompt_tokens + kind.fresh_tokens
    assert set(ask["input_ids"]) <= set(TOKEN_IDS) and json.dumps(ask)
    sampling = ask["sampling_params"]
    assert sampling["max_new_tokens"] == kind.answer_tokens
    assert ("json_schema" in sampling) == bool(kind.chat) and ("ignore_eos" in sampling) != bool(kind.chat)


def test_the_plan_asks_for_all_on_cards_and_for_few_without() -> None:
    def config(which: Any, about: Any) -> GuardConfig:
        return SimpleNamespace(warm_up=which, about=about)  # type: ignore[return-value]

    assert len(asked(config("all", SIZES))) > len(asked(config("few", SIZES))) > 2
    assert asked(config("off", SIZES)) == asked(config("all", {})) == ()


def test_what_the_warm_up_compiles_is_not_compiled_in_front_of_clients(tmp_path: Path) -> None:
    watch = Watch("decode")
    watch.needs_warm_up, watch.pid, watch.alive = True, os.getpgid(0), True
    watch.on_ready(Answer.YES, time.monotonic() - 20)
    config: Any = SimpleNamespace(record_dir=str(tmp_path), cache_strict=False, cache_dir="")
    compiles = Compiles(config, {"decode": watch})
    line = {"system": "tilelang", "kernel": "mhc_post", "seconds": 9.0, "cached": False}
    file = tmp_path / f"compiles.{os.getpid()}.jsonl"
    file.write_text(json.dumps({"time": time.time() - 10, "pid": os.getpid(), **line}) + "\n")
    compiles.look()
    assert compiles.log.document()["since_ready"] == 0
    watch.on_warm(watch.pid, time.monotonic())
    with file.open("a") as log:
        log.write(json.dumps({"time": time.time() + 1, "pid": os.getpid(), **line}) + "\n")
    compiles.look()
    assert compiles.log.document()["since_ready"] == 1
