"""supervisord's XML-RPC over its unix socket, with a time limit: a supervisord that is stopped must not stop us."""

from __future__ import annotations

import socket as sockets
import xmlrpc.client
from http.client import HTTPException
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import SupervisorTransport, UnixStreamHTTPConnection

TIMEOUT_S = 2.0
# What a call raises when supervisord does not answer; `xmlrpc.client.Fault` when it refuses.
UNREACHABLE = (OSError, HTTPException, xmlrpc.client.ProtocolError)


class _Connection(UnixStreamHTTPConnection):  # type: ignore[misc]
    socketfile: str

    def connect(self) -> None:
        self.sock = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self.socketfile)


def connect(socket: Path) -> Any:
    """The `supervisor` namespace as a proxy object; calls raise one of `UNREACHABLE` when nobody answers in time."""
    transport = SupervisorTransport(None, None, f"unix://{socket}")

    def connection() -> _Connection:
        made = _Connection("localhost")
        made.socketfile = str(socket)
        return made

    transport._get_connection = connection
    # The address is a formality: the transport connects to the socket.
    return xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport).supervisor
