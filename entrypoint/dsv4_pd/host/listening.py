"""The socket that a server of ours listens on: opened in one way by the servers and by who asks whether it can be."""

from __future__ import annotations

import socket


def open_socket(host: str, port: int, backlog: int = 128) -> socket.socket:
    """A listening TCP socket. `::` takes IPv4 as well, where the kernel can: an event loop's own would not.

    As every server does: a port in TIME_WAIT is free.

    Raises:
        OSError: EADDRINUSE, EADDRNOTAVAIL, EACCES, EAFNOSUPPORT, ...
    """
    six = ":" in host
    return socket.create_server(
        (host, port),
        family=socket.AF_INET6 if six else socket.AF_INET,
        backlog=backlog,
        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
    )
