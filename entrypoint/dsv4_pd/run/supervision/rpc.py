"""supervisord's XML-RPC over its unix socket."""

from __future__ import annotations

import xmlrpc.client
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import SupervisorTransport


def connect(socket: Path) -> Any:
    """The `supervisor` namespace as a proxy object; calls raise OSError when supervisord does not answer."""
    transport = SupervisorTransport(None, None, f"unix://{socket}")
    # The address is a formality: the transport connects to the socket.
    return xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport).supervisor
