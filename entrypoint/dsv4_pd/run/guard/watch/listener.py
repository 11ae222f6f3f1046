"""supervisord's event listener protocol on standard input and output.

    READY\\n → "ver:3.0 … eventname:PROCESS_STATE_EXITED len:71\\n" + payload → RESULT 2\\nOK

Events are acknowledged at once: supervisord buffers few, and what they mean is read again from its XML-RPC.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

PREFIX = "PROCESS_STATE_"


@dataclass(frozen=True, slots=True)
class Event:
    """A program changed its state."""

    name: str
    state: str
    pid: int


def tokens(text: str) -> dict[str, str]:
    """The pairs of a header or payload line.

    >>> tokens("processname:decode groupname:decode from_state:RUNNING expected:0 pid:123")["pid"]
    '123'
    """
    return dict(pair.split(":", 1) for pair in text.split() if ":" in pair)


def parse(header: dict[str, str], payload: str) -> Event | None:
    """The event, or None for one that is not about a program's state."""
    kind = header.get("eventname", "")
    if not kind.startswith(PREFIX):
        return None
    fields = tokens(payload.splitlines()[0] if payload else "")
    return Event(fields.get("processname", ""), kind.removeprefix(PREFIX), int(fields.get("pid", 0)))


async def listen(on_event: Callable[[Event], None]) -> None:
    """Serve events until supervisord closes the pipe, which means that it is gone."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while True:
        os.write(sys.stdout.fileno(), b"READY\n")
        try:
            header = tokens((await reader.readuntil(b"\n")).decode())
            payload = (await reader.readexactly(int(header["len"]))).decode("utf-8", "replace")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        os.write(sys.stdout.fileno(), b"RESULT 2\nOK")
        event = parse(header, payload)
        if event:
            on_event(event)
