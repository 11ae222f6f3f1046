"""supervisord's XML-RPC over its unix socket: the guard's hands."""

from __future__ import annotations

import asyncio
import xmlrpc.client
from dataclasses import dataclass
from typing import Any

import aiohttp

TIMEOUT = 10.0
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
        OSError, aiohttp.ClientError, TimeoutError: when supervisord does not answer.
        xmlrpc.client.Fault: when it refuses.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None

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
        if self._session:
            await self._session.close()

    async def _call(self, method: str, *args: Any) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(path=self._socket), timeout=aiohttp.ClientTimeout(total=TIMEOUT)
            )
        body = xmlrpc.client.dumps(args, method).encode()
        async with self._session.post("http://supervisor/RPC2", data=body, headers={"Content-Type": "text/xml"}) as got:
            got.raise_for_status()
            text = await got.text()
        try:
            result, _ = xmlrpc.client.loads(text)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode in ALREADY:
                return None
            raise
        return result[0]


def _process(info: dict[str, Any]) -> Process:
    return Process(info["name"], info["statename"], int(info["pid"]), int(info["exitstatus"]))


async def answers(socket: str) -> bool:
    """Whether anybody listens on the socket."""
    try:
        _, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return False
    writer.close()
    return True
