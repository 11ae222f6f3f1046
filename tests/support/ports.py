"""Ports for programs that a test starts."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Ports of loopback that were free a moment ago, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(item.getsockname()[1]) for item in sockets]
    for item in sockets:
        item.close()
    return ports
