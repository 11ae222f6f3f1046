"""supervisord's XML-RPC over its unix socket, as the guard uses it."""

from __future__ import annotations

import asyncio
import xmlrpc.client
from dataclasses import dataclass
from typing import Any

import httpx2

from dsv4_pd.run import loopback_http

TIMEOUT = 10.0
# Every way in which supervisord can fail to do what it was asked to.
UNREACHABLE = (*loopback_http.FAILURES, TimeoutError, xmlrpc.client.Fault)
# Faults that only say that the world is already as asked, or on its way there.
ALREADY = frozenset({60, 70, 80, 90, 6})  # ALREADY_STARTED, NOT_RUNNING, SUCCESS, ALREADY_ADDED, SHUTDOWN_STATE
IDLE = frozenset({"STOPPED", "EXITED", "FATAL", "UNKNOWN"})
UP = frozenset({"STARTING", "RUNNING", "STOPPING"})


@dataclass(frozen=True, slots=True)
class Process:
    """One program as supervisord knows it."""

    name: str
    state: str  # STOPPED, STARTING, RUNNING, BACKOFF, STOPPING, EXITED, FATAL, UNKNOWN
    pid: int
    exit_status: int  # -1: ended by a signal


class Supervisor:
    """A client of one supervisord.

    Raises:
        UNREACHABLE: when supervisord does not answer (OSError, httpx2.HTTPError, TimeoutError), or refuses (Fault).
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._client: httpx2.AsyncClient | None = None

    async def processes(self) -> tuple[Process, ...]:
        """All programs."""
        return tuple(_process(item) for item in await self._call("supervisor.getAllProcessInfo"))

    async def process(self, name: str) -> Process:
        """One program."""
        return _process(await self._call("supervisor.getProcessInfo", name))

    async def start(self, name: str) -> None:
        """Start a program without waiting for it."""
        await self._call("supervisor.startProcess", name, False)

    async def stop(self, name: str) -> None:
        """Ask a program to end, without waiting; supervisord won't restart it."""
        await self._call("supervisor.stopProcess", name, False)

    async def shutdown(self) -> None:
        """End supervisord and everything below it."""
        await self._call("supervisor.shutdown")

    async def log_tail(self, size: int = 4000) -> str:
        """The end of supervisord's own log: the only place that names the signal that ended a program."""
        return str(await self._call("supervisor.readLog", -size, 0))

    async def close(self) -> None:
        """Close the connection."""
        if self._client:
            await self._client.aclose()

    async def _call(self, method: str, *args: Any) -> Any:
        if self._client is None:
            self._client = loopback_http.client({"Content-Type": "text/xml"}, self._socket)
        body = xmlrpc.client.dumps(args, method).encode()
        async with asyncio.timeout(TIMEOUT):
            got = await self._client.post("http://supervisor/RPC2", content=body)
        got.raise_for_status()
        try:
            result, _ = xmlrpc.client.loads(got.content)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode in ALREADY:
                return None
            raise
        return result[0]


def _process(info: dict[str, Any]) -> Process:
    return Process(info["name"], info["statename"], int(info["pid"]), int(info["exitstatus"]))
