"""The router's list against ours, and how the guard asks: past every proxy, one question at a time, never left open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from dsv4_pd.plan.guard.config import GuardConfig, ServerConfig
from dsv4_pd.run.guard.ask import workers
from dsv4_pd.run.guard.ask.probes import LIST_S, Probes
from dsv4_pd.run.guard.ask.workers import Listed
from dsv4_pd.run.guard.decide.states import Answer
from dsv4_pd.run.guard.prove import canary
from dsv4_pd.run.ops import collect

PREFILL = ServerConfig("prefill", "http://127.0.0.1:30000", "", bootstrap_port=8998)
DECODE = ServerConfig("decode", "http://127.0.0.1:30001", "")
PAIR = (PREFILL, DECODE)
P = Listed("p", PREFILL.url, "prefill", 8998)
D = Listed("d", DECODE.url, "decode")
EVIL = Listed("e", "http://192.0.2.9:1", "decode")
# what is listed: strangers, ours that are absent, what is said
LISTS: dict[str, tuple[list[Listed], list[str], list[str], str]] = {
    "ours": ([P, D], [], [], ""),
    "in another order": ([D, P], [], [], ""),
    "nothing": ([], [], ["prefill", "decode"], "0 of 2 workers healthy"),
    "one is missing": ([P], [], ["decode"], "1 of 2 workers healthy"),
    "a stranger beside ours": ([P, D, EVIL], ["e"], [], "not ours: http://192.0.2.9:1"),
    "a stranger in decode's place": ([P, EVIL], ["e"], ["decode"], "not ours"),
    "prefill's place taken by decode": ([P, D, Listed("x", DECODE.url, "prefill")], ["x"], [], "not ours"),
    "another bootstrap port": ([Listed("x", PREFILL.url, "prefill", 1), D], ["x"], ["prefill"], "not ours"),
    "one port is a digit longer": ([P, D, Listed("x", DECODE.url + "0", "decode")], ["x"], [], "not ours"),
    "a stranger that leaves": ([P, D, Listed("e", EVIL.url, "decode", None, False, True)], [], [], ""),
    "ours leaves": ([P, Listed("d", DECODE.url, "decode", None, False, True)], [], ["decode"], "1 of 2"),
    "ours is sick": ([P, Listed("d", DECODE.url, "decode", None, False)], [], [], "1 of 2 workers healthy"),
    "a stranger for a sick one": ([P, Listed("d", DECODE.url, "decode", None, False), EVIL], ["e"], [], "not ours"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "strange", "absent", "said"), LISTS.values(), ids=LISTS)
def test_the_list(found: list[Listed], strange: list[str], absent: list[str], said: str) -> None:
    listed = tuple(found)
    assert [one.id for one in workers.foreign(listed, PAIR)] == strange
    assert [server.name for server in workers.absent(listed, PAIR)] == absent
    mismatch = workers.mismatch(listed, PAIR)
    assert said in mismatch and bool(said) == bool(mismatch)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"workers": null}', '{"workers": [1]}', "<html>"])
def test_what_is_no_list_lists_nobody(text: str) -> None:
    assert workers.parse(text) == ()


def test_a_single_server_is_a_regular_worker() -> None:
    single = ServerConfig("single", "http://127.0.0.1:30000", "")
    assert workers.entry(single, None) == {"url": single.url, "worker_type": "regular", "api_key": None}
    assert workers.mismatch((Listed("1", single.url, "regular"),), (single,)) == ""


# --- over HTTP ------------------------------------------------------------------------------------------------------


class Router:
    """Answers like a router; `hang` holds every answer to a POST of a completion. What it hides: real routing."""

    def __init__(self) -> None:
        self.workers: list[dict[str, Any]] = []
        self.heard: list[tuple[str, str, str, Any]] = []
        self.hang = False
        self.counts: dict[str, int] = {}
        self.closed = asyncio.Event()
        self.open = self.most = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        self.heard.append((method, path, fields.get("authorization", ""), json.loads(body) if body else None))
        if path == "/v1/completions" and self.hang:
            await reader.read()  # until the other end closes
            self.closed.set()
        elif method == "DELETE":
            self.workers = [one for one in self.workers if one["id"] != path.rsplit("/", 1)[1]]
        elif method == "POST" and path == "/workers":
            self.workers.append({"id": str(len(self.heard)), "is_healthy": True, **json.loads(body)})
        answer = {"/workers": {"workers": self.workers}}.get(path, {"status": "ready", "choices": [], **self.counts})
        text = json.dumps(answer).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + text
        )
        writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Router, str]]:
    fake = Router()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    try:
        yield fake, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every proxy variable leads to a port where nobody is, and no address is excepted."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")


async def test_strangers_are_put_out_and_ours_registered_with_their_key(hostile: None) -> None:
    probes = Probes("client", "control")
    async with listening() as (router, url):
        router.workers = [{"id": "e", "url": EVIL.url, "worker_type": "decode", "is_healthy": True}]
        assert (await probes.router(url, PAIR))[0] is Answer.NO
        assert await probes.reconcile(url, PAIR, "client") == (EVIL.url,)
        assert await probes.router(url, PAIR) == (Answer.YES, "")
        assert await probes.reconcile(url, PAIR, "client") == (), "what is right is left alone"
    await probes.close()
    told = [(method, path, body) for method, path, _, body in router.heard if method != "GET"]
    assert told == [
        ("DELETE", "/workers/e", None),
        (
            "POST",
            "/workers",
            {"url": PREFILL.url, "worker_type": "prefill", "api_key": "client", "bootstrap_port": 8998},
        ),
        ("POST", "/workers", {"url": DECODE.url, "worker_type": "decode", "api_key": "client"}),
    ]
    keys = {(path.split("/")[1], key) for _, path, key, _ in router.heard}
    assert keys == {("readiness", "Bearer client"), ("workers", "Bearer control")}


@pytest.mark.parametrize(("total", "within"), [(3, 0.2), (2, LIST_S + 0.3), (None, LIST_S + 0.3)])
async def test_a_stranger_is_seen_at_once_and_a_swap_within_a_second(total: int | None, within: float) -> None:
    """The routers' own count tells of one more; that one took another's place, only the list does."""
    probes = Probes(None, "control")
    async with listening() as (router, url):
        await probes.reconcile(url, PAIR, None)
        router.counts = {"healthy_workers": 2, "total_workers": 2}
        assert await probes.router(url, PAIR) == (Answer.YES, "")
        lists = sum(path == "/workers" for _, path, _, _ in router.heard)
        assert await probes.router(url, PAIR) == (Answer.YES, "")
        assert sum(path == "/workers" for _, path, _, _ in router.heard) == lists, (
            "a list that was right is not read again"
        )
        router.workers[-1] = {**router.workers[-1], "url": EVIL.url}
        router.counts = {"healthy_workers": total or 2} | ({"total_workers": total} if total else {})
        begun = asyncio.get_running_loop().time()
        while (await probes.router(url, PAIR))[0] is Answer.YES:
            assert asyncio.get_running_loop().time() - begun < within
            await asyncio.sleep(0.02)
    await probes.close()


async def test_a_scrape_and_a_probe_pass_every_proxy(hostile: None) -> None:
    probes = Probes(None)
    async with listening() as (_, url):
        assert await probes.status(f"{url}/ready") is Answer.YES
        assert (await collect.scrape(probes.client, {"decode": f"{url}/metrics", "gone": "http://127.0.0.1:9/"}))[
            "gone"
        ] is None
    await probes.close()


async def test_a_probe_is_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends a byte now and then never stands still, and is silent all the same."""

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x")
            await asyncio.sleep(0.05)

    probes = Probes(None)
    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    assert await asyncio.wait_for(probes.status(url, 0.4), 5) is Answer.SILENT
    server.close()
    await probes.close()


def pair_behind(url: str, link_timeout: float) -> GuardConfig:
    from dataclasses import replace
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from guard.appliance import QUICK, Appliance

    with TemporaryDirectory() as folder:
        return replace(
            Appliance(Path(folder), replace(QUICK, link_timeout=link_timeout)).config, router_url=url, front_url=""
        )


@pytest.mark.parametrize("how", ["cancelled", "late"])
async def test_a_canary_that_ends_closes_its_connection(how: str, hostile: None) -> None:
    """The router then ends the request, so that no server waits for it."""
    probes = Probes(None)
    async with listening() as (router, url):
        router.hang = True
        flight = asyncio.create_task(canary.send(pair_behind(url, 60.0), probes, 60.0 if how == "cancelled" else 0.5))
        while not router.heard:
            await asyncio.sleep(0.01)
        if how == "cancelled":
            flight.cancel()
        await asyncio.wait_for(router.closed.wait(), 5)
        if how == "cancelled":
            with pytest.raises(asyncio.CancelledError):
                await flight
        else:
            assert not (await flight).passed
    await probes.close()
