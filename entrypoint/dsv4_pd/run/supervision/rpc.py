"""supervisord's XML-RPC over its unix socket: for the guard, which awaits, and for `serve`, which waits.

Every question is bounded: a supervisord that is stopped must not stop us.
"""

from __future__ import annotations

import asyncio
import xmlrpc.client
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from dsv4_pd.run import loopback_http

AWAITED_S, WAITED_S = 10.0, 2.0
# What a call raises when nobody answers in time, and when supervisord does not do what it was asked to.
UNREACHABLE = (*loopback_http.FAILURES, TimeoutError)
FAILURES = (*UNREACHABLE, xmlrpc.client.Fault)
# Faults that only say that the world is already as asked, or on its way there.
ALREADY = frozenset({60, 70, 80, 90, 6})  # ALREADY_STARTED, NOT_RUNNING, SUCCESS, ALREADY_ADDED, SHUTDOWN_STATE
IDLE = frozenset({"STOPPED", "EXITED", "FATAL", "UNKNOWN"})
UP = frozenset({"STARTING", "RUNNING", "STOPPING"})
_URL, _HEADERS = "http://supervisor/RPC2", {"Content-Type": "text/xml"}


@dataclass(frozen=True, slots=True)
class Process:
    """One program as supervisord knows it."""

    name: str
    state: str  # STOPPED, STARTING, RUNNING, BACKOFF, STOPPING, EXITED, FATAL, UNKNOWN
    pid: int
    exit_status: int  # -1: ended by a signal


class Supervisor:
    """The guard's client. Calls raise one of `FAILURES`."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._client: httpx2.AsyncClient | None = None

    async def processes(self) -> tuple[Process, ...]:
        """All programs."""
        listed: Iterable[dict[str, Any]] = await self._ask("getAllProcessInfo")
        return tuple(_process(item) for item in listed)

    async def process(self, name: str) -> Process:
        """One program."""
        return _process(await self._ask("getProcessInfo", name))

    async def start(self, name: str) -> None:
        """Start a program without waiting for it."""
        await self._tell("startProcess", name, False)

    async def stop(self, name: str) -> None:
        """Ask a program to end, without waiting; supervisord won't restart it."""
        await self._tell("stopProcess", name, False)

    async def shutdown(self) -> None:
        """End supervisord and everything below it."""
        await self._tell("shutdown")

    async def log_tail(self, size: int = 4000) -> str:
        """The end of supervisord's own log: the only place that names the signal that ended a program."""
        return str(await self._ask("readLog", -size, 0))

    async def close(self) -> None:
        """Close the connection."""
        if self._client:
            await self._client.aclose()

    async def _tell(self, method: str, *args: Any) -> None:
        try:
            await self._ask(method, *args)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode not in ALREADY:
                raise

    async def _ask(self, method: str, *args: Any) -> Any:
        if self._client is None:
            self._client = loopback_http.client(_HEADERS, self._socket)
        async with asyncio.timeout(AWAITED_S):
            got = await self._client.post(_URL, content=_call(method, args))
        return _answer(got)


class Waiting:
    """The client of `serve`, which has no loop. Calls raise one of `FAILURES`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def process(self, name: str) -> Process:
        """One program."""
        return _process(self._ask("getProcessInfo", name))

    def start(self, name: str) -> None:
        """Start a program without waiting for it; one that runs is refused."""
        self._ask("startProcess", name, False)

    def _ask(self, method: str, *args: Any) -> Any:
        with loopback_http.waiting_client(_HEADERS, str(self._socket), WAITED_S) as client:
            return _answer(client.post(_URL, content=_call(method, args)))


def _call(method: str, args: tuple[Any, ...]) -> bytes:
    return xmlrpc.client.dumps(args, f"supervisor.{method}").encode()


def _answer(got: httpx2.Response) -> Any:
    """The one value of an answer; a refusal raises `Fault`."""
    got.raise_for_status()
    result, _ = xmlrpc.client.loads(got.content)
    return result[0]


def _process(info: dict[str, Any]) -> Process:
    return Process(info["name"], info["statename"], int(info["pid"]), int(info["exitstatus"]))
