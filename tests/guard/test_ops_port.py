"""The ops port under clients that mean no good: idle, half-sent, too many, under a stranger's name."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.address import bracketed
from dsv4_pd.run.ops import door, page, server
from dsv4_pd.run.ops.door import Door
from guard.appliance import running
from support.ports import free_ports


class Load:
    """Telemetry without engines."""

    async def live(self) -> dict[str, Any]:
        return {"roles": {}}

    async def metrics(self) -> str:
        return "dsv4_ready 1\n"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The real server over a document that is always READY."""
    (number,) = free_ports(1)
    app = server.application(lambda: {"state": "READY"}, Load(), {}, "gpu1.example.org")
    task = asyncio.create_task(server.serve(app, "127.0.0.1", number))
    for _ in range(200):
        with contextlib.suppress(OSError):
            await say(number, b"")
            break
        await asyncio.sleep(0.02)
    yield number
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("host", "hears"), [("::", ["127.0.0.1", "::1"]), ("::1", ["::1"])])
async def test_it_listens_where_the_setting_says(host: str, hears: list[str]) -> None:
    (number,) = free_ports(1)
    app = server.application(lambda: {"state": "READY"}, Load(), {})
    task = asyncio.create_task(server.serve(app, host, number))
    await asyncio.sleep(0.2)
    async with aiohttp.ClientSession(trust_env=False) as session:
        for address in hears:
            async with session.get(f"http://{bracketed(address)}:{number}/readyz") as answer:
                assert (await answer.json())["ready"] is True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def say(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def ask(port: int, path: str, host: str | None = None) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession(headers={"Host": host} if host else {}) as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def closed(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Whether the other side closes within that time."""
    try:
        return await asyncio.wait_for(reader.read(1), seconds) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


PRIVATE = ("/", "/status", "/load", "/live")
OPEN = sorted(server.ANY_NAME)


@pytest.mark.parametrize("path", [*PRIVATE, *OPEN])
async def test_a_stranger_s_name_reads_no_status(port: int, path: str) -> None:
    status, text = await ask(port, path, "evil.example:8001")
    assert status == (421 if path in PRIVATE else 200), text
    if path in PRIVATE:
        assert "Host: found 'evil.example:8001', expected" in text and "READY" not in text


NAMES = (
    *("localhost:8001", "127.0.0.1", "10.1.2.3:8001", "[fd00::1]:8001", "dsv4-pd:8001"),
    *("dsv4-pd.models.svc.cluster.local", "GPU1.example.org.:8001", socket.gethostname()),
)


@pytest.mark.parametrize("host", NAMES)
async def test_the_names_that_operators_and_scrapers_use(port: int, host: str) -> None:
    for path in (*PRIVATE, *OPEN):
        assert (await ask(port, path, host))[0] == 200, path


async def test_status_says_by_which_name_to_ask(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **kind: look_up("127.0.0.1", *more, **kind))
    with pytest.raises(ApplianceError, match="expected an IP address, a name without a dot"):
        await asyncio.to_thread(Ops(f"http://gpu2.example.org:{port}").status)
    assert (await asyncio.to_thread(Ops(f"http://gpu1.example.org:{port}").status))["state"] == "READY"


async def test_load_keeps_its_old_name_for_a_release(port: int) -> None:
    assert await ask(port, "/load") == await ask(port, "/live") == (200, '{"roles": {}}')
    assert 'fetch("load"' in page.html()


async def test_the_old_name_says_which_one_follows(port: int, caplog: pytest.LogCaptureFixture) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(f"http://127.0.0.1:{port}/live") as answer:
                assert answer.headers["Link"] == '</load>; rel="successor-version"'
        async with session.get(f"http://127.0.0.1:{port}/load") as answer:
            assert "Link" not in answer.headers
    told = [record.getMessage() for record in caplog.records if "/live" in record.getMessage()]
    assert told == ["the ops port was asked for a name that will go: GET /live is deprecated and will be removed in 0.3.0: use GET /load"]  # fmt: skip  # noqa: E501


async def test_half_sent_and_idle_connections_are_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "REQUEST_S", 1.0)
    monkeypatch.setattr(door, "IDLE_S", 3.0)
    half, _ = await say(port, b"GET /readyz HTTP/1.1\r\nHost: loc")
    idle, _ = await say(port, b"")
    kept, writer = await say(port, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await kept.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    begun = time.monotonic()
    assert await closed(half, 10)
    assert time.monotonic() - begun < 2.9, "sooner than an idle one"
    assert await closed(idle, 10)
    writer.close()


async def test_a_drip_of_bytes_gains_no_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "REQUEST_S", 1.0)
    reader, writer = await say(port, b"GET /readyz HTTP/1.1\r\n")
    begun = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while time.monotonic() - begun < 10 and not reader.at_eof():
            writer.write(b"X-A: b\r\n")
            await writer.drain()
            await asyncio.sleep(0.2)
    assert time.monotonic() - begun < 8


async def test_more_bytes_than_a_request_has_end_the_connection(port: int) -> None:
    reader, writer = await say(port, b"POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            writer.write(b"x" * 65536)
            await writer.drain()
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), 10)
    assert (await ask(port, "/readyz"))[0] == 200


async def test_who_is_idle_longest_makes_room(port: int) -> None:
    crowd = [await say(port, b"") for _ in range(door.CONNECTIONS + 20)]
    assert (await ask(port, "/readyz"))[0] == 200
    assert await closed(crowd[0][0], 5) and not await closed(crowd[-1][0], 0.2)
    for _, writer in crowd:
        writer.close()


def test_a_request_that_is_being_answered_stays() -> None:
    class Line:
        gone = False

        def abort(self) -> None:
            self.gone = True

    lines = [Line() for _ in range(3)]
    hall = Door(2)
    hall.enter(lines[0])  # type: ignore[arg-type]
    hall._callers[lines[0]].busy = 1  # type: ignore[index]
    hall.enter(lines[1])  # type: ignore[arg-type]
    hall.enter(lines[2])  # type: ignore[arg-type]
    assert [line.gone for line in lines] == [False, True, False]
    assert (len(hall), hall.turned_away) == (2, 1)


@pytest.mark.slow
def test_a_flood_of_idle_connections_harms_nobody(tmp_path: Path) -> None:
    """1,100 of them against 1,024 descriptors; then no descriptor at all is left for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    held: list[socket.socket] = []
    try:
        with running(tmp_path) as appliance:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
            appliance.wait_state("READY")
            guard = appliance.pid("guard")
            held += [socket.create_connection(("127.0.0.1", appliance.ops), timeout=5) for _ in range(1100)]
            for _ in range(10):
                assert appliance.get("/readyz")[0] == 200
                time.sleep(0.5)
            assert appliance.pid("guard") == guard
            resource.prlimit(guard, resource.RLIMIT_NOFILE, (8, hard))
            time.sleep(4)
            resource.prlimit(guard, resource.RLIMIT_NOFILE, (1024, hard))
            appliance.wait_state("READY")
            assert appliance.pid("guard") == guard
            assert appliance.starts("prefill") == appliance.starts("decode") == 1
            assert "Too many open files" in (tmp_path / "run/log/guard.log").read_text()
    finally:
        for item in held:
            item.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
