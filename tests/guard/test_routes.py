"""Several routes: each is asked by itself, past the router, and only what is its own excuses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.guard.config import GuardConfig, Limits, ServerConfig
from dsv4_pd.run.guard.ask import workers
from dsv4_pd.run.guard.ask.probes import Probes
from dsv4_pd.run.guard.ask.traffic import CROSSED
from dsv4_pd.run.guard.decide.states import Answer
from dsv4_pd.run.guard.prove import canary
from dsv4_pd.run.guard.prove.canary import CanaryResult
from dsv4_pd.run.guard.prove.routes import Routes
from guard.appliance import Appliance

GOOD = {"choices": [{"text": "x", "finish_reason": "length"}]}
ABORTED = {"choices": [{"text": "", "finish_reason": "abort"}]}


@dataclass
class Server:
    """One member (or the router) that answers as told and keeps what it was asked. What it hides: any real transfer."""

    completion: tuple[int, object] = (200, GOOD)
    hangs: bool = False
    gets: dict[str, tuple[int, object]] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        status, answer = self.gets.get(path, (200, {}))
        if method == "POST":
            self.bodies.append(json.loads(body) | {"authorization": fields.get("authorization", "")})
            status, answer = self.completion
            if self.hangs:
                await reader.read()
        text = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(text)) + text)
        writer.close()


@asynccontextmanager
async def listening(*servers: Server) -> AsyncIterator[None]:
    sockets = [await asyncio.start_server(one.serve, "127.0.0.1", 0) for one in servers]
    for one, socket in zip(servers, sockets, strict=True):
        one.url = f"http://127.0.0.1:{socket.sockets[0].getsockname()[1]}"
    try:
        yield
    finally:
        for socket in sockets:
            socket.close()


def config(folder: Path, *servers: ServerConfig, router: str = "http://127.0.0.1:9") -> GuardConfig:
    return replace(Appliance(folder).config, servers=servers, router_url=router)


def two_prefills(folder: Path, *members: Server) -> GuardConfig:
    first, second, last = members
    return config(
        folder,
        ServerConfig("prefill-1", first.url, "", bootstrap_url=first.url, bootstrap_port=8998, role="prefill"),
        ServerConfig("prefill-2", second.url, "", bootstrap_url=second.url, bootstrap_port=9008, role="prefill"),
        ServerConfig("decode", last.url, "", role="decode"),
    )


def test_routes_are_replicas_or_every_prefill_with_every_decode(tmp_path: Path) -> None:
    def names(*roles: str) -> list[str]:
        servers = [ServerConfig(f"{role}{at}", "", "", role=role) for at, role in enumerate(roles)]
        return [" ".join(one.name for one in route) for route in config(tmp_path, *servers).routes]

    assert names("single", "single") == ["single0", "single1"]
    assert names("prefill", "prefill", "decode") == ["prefill0 decode2", "prefill1 decode2"]
    assert names("prefill", "decode") == ["prefill0 decode1"]
    assert len(Routes(config(tmp_path, ServerConfig("prefill", "", ""), ServerConfig("decode", "", "")))) == 0


async def test_a_pair_is_asked_as_the_router_would(tmp_path: Path) -> None:
    members = [Server(), Server(), Server()]
    async with listening(*members):
        guard, probes = two_prefills(tmp_path, *members), Probes("key")
        results = [await canary.send_to(guard, probes, route, 5.0) for route in guard.routes]
        await probes.close()
    assert all(result.passed for result in results)
    first, second, last = (one.bodies for one in members)
    assert [len(first), len(second), len(last)] == [1, 1, 2]
    assert first[0] == last[0] and second[0] == last[1], "both servers get the same body"
    assert [body["bootstrap_port"] for body in last] == [8998, 9008]
    assert last[0]["bootstrap_room"] != last[1]["bootstrap_room"] and last[0]["prompt"] != last[1]["prompt"]
    assert all(0 <= body["bootstrap_room"] < 2**63 for body in last)
    assert last[0]["authorization"] == "Bearer key"


async def test_a_replica_is_asked_alone_and_needs_no_router(tmp_path: Path) -> None:
    members = [Server(), Server()]
    async with listening(*members):
        servers = [ServerConfig(f"single-{at}", one.url, "", role="single") for at, one in enumerate(members, 1)]
        guard, probes = config(tmp_path, *servers), Probes(None)
        result = await canary.send_to(guard, probes, guard.routes[1], 5.0)
        await probes.close()
    assert result.passed and not members[0].bodies
    assert "bootstrap_room" not in members[1].bodies[0]


@pytest.mark.parametrize(
    ("prefill", "decode", "confirmed", "failure"),
    [
        (Server((500, {})), Server(), True, "link from prefill-1 to decode: status 500"),
        (Server(), Server((500, {})), True, "link from prefill-1 to decode: status 500"),
        (Server(), Server((200, ABORTED)), True, "an answer that did not come to an end"),
        (Server(), Server(hangs=True), True, "link from prefill-1 to decode: no answer within 1 s"),
        (Server(gets={"/ready": (503, {})}, hangs=True), Server(), False, "prefill-1: /ready says no"),
        (Server(), Server((503, {}), gets={"/ready": (503, {})}), False, "decode: /ready says no"),
        (Server((429, {})), Server(), False, ""),
    ],
)
async def test_what_fails_on_one_route_is_named(
    tmp_path: Path, prefill: Server, decode: Server, confirmed: bool, failure: str
) -> None:
    async with listening(prefill, spare := Server(), decode):
        guard, probes = two_prefills(tmp_path, prefill, spare, decode), Probes(None)
        result = await canary.send_to(guard, probes, guard.routes[0], 1.0)
        await probes.close()
    assert (result.passed, result.confirmed) == (False, confirmed)
    assert failure in result.failure
    assert not spare.bodies


async def test_who_gets_no_requests_is_told_apart_from_strangers(tmp_path: Path) -> None:
    servers = [ServerConfig(f"single-{at}", f"http://h:{at}", "", role="single") for at in (1, 2)]

    def entry(server: ServerConfig, **more: Any) -> dict[str, Any]:
        return workers.entry(server, None) | {"id": server.name, "is_healthy": True} | more

    ours = [entry(server) for server in servers]
    sick = [ours[0], entry(servers[1], is_healthy=False)]
    stranger = [*ours, entry(ServerConfig("x", "http://evil", "", role="single"))]
    heard = []
    for listed in (ours, sick, ours[:1], stranger):
        router = Server(gets={"/workers": (200, {"workers": listed})})
        async with listening(router):
            probes = Probes(None)
            heard.append(await probes.listing(router.url, servers))
            await probes.close()
    assert heard[0] == (Answer.YES, "", ())
    assert heard[1] == heard[2] == (Answer.YES, "", ("single-2",))
    assert heard[3][0] is Answer.NO and "http://evil" in heard[3][1]


UNANSWERED = CanaryResult(10.0, 5.0, confirmed=True, failure="x", unanswered=True)
REFUSED = CanaryResult(10.0, 0.1, confirmed=True, failure="x")
HOLDS = "sglang:num_prefill_inflight_queue_reqs"


def routes(folder: Path, *roles: tuple[str, str]) -> Routes:
    return Routes(config(folder, *(ServerConfig(name, "", "", role=role) for name, role in roles)))


def test_a_replicas_own_answers_excuse_it_and_nobody_elses(tmp_path: Path) -> None:
    one, other = found = list(several := routes(tmp_path, ("single-1", "single"), ("single-2", "single")))
    for at, count in ((8.0, 1.0), (12.0, 2.0)):
        several.on_sample("single-1", {CROSSED: count}, at, first=True, last=True)
        several.on_sample("single-2", {CROSSED: 1.0}, at, first=True, last=True)
    busy = [route.busy(REFUSED, [], 0, 13.0, Limits()) for route in found]
    assert (one.alone, other.alone, busy) == (True, True, [True, False])


@pytest.mark.parametrize(
    ("result", "held", "busy"),
    [
        (UNANSWERED, 0.0, True),  # it may wait in decode's queue
        (UNANSWERED, 1.0, False),  # this prefill can't hand over
        (REFUSED, 0.0, False),  # an error is no wait
    ],
)
def test_a_shared_decode_excuses_only_who_waits(tmp_path: Path, result: CanaryResult, held: float, busy: bool) -> None:
    members = ("prefill-1", "prefill"), ("prefill-2", "prefill"), ("decode", "decode")
    first, _ = several = list(all_ := routes(tmp_path, *members))
    for at, count in ((8.0, 1.0), (12.0, 2.0)):
        all_.on_sample("prefill-1", {HOLDS: held}, at, first=True, last=False)
        all_.on_sample("decode", {CROSSED: count}, at, first=False, last=True)
    assert not any(route.alone for route in several)
    assert first.busy(result, [], 0, 13.0, Limits()) is busy


def test_a_death_takes_the_proof_of_its_own_routes_away(tmp_path: Path) -> None:
    members = ("prefill-1", "prefill"), ("prefill-2", "prefill"), ("decode", "decode")
    several = routes(tmp_path, *members)
    for route in several:
        route.proof.on_result(CanaryResult(1.0, 0.1, passed=True), 1.0, busy=False)
    several.forget("prefill-1")
    assert [view.canary.sent for view in several.views()] == [None, 1.0]
    several.forget("decode")
    assert [view.canary.sent for view in several.views()] == [None, None]
