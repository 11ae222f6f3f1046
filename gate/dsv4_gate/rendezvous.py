"""Where an engine's ranks meet: on loopback alone.

torch's rendezvous is a key-value store that rank 0 serves over TCP, on every address of the host, with no key: whoever
reaches the port may read, change and fill it. Its server also takes a socket that listens already, so rank 0 gets one
that is bound to the address that the ranks were told.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Callable
from typing import Any

from dsv4_hooks.record import Record
from dsv4_hooks.table import put_around
from dsv4_hooks.targets import EngineChanged, require_parameters, resolve

TARGET = "torch.distributed.rendezvous._create_c10d_store"
PARAMETERS = ("hostname", "port", "rank", "world_size", "timeout", "use_libuv")
BACKLOG = 128  # far more than the ranks of one host, who all connect at once

Make = Callable[..., Any]


def check() -> None:
    """torch's function takes what the hook passes on, and its store takes a listening socket."""
    require_parameters(TARGET, resolve(TARGET), PARAMETERS)
    store = resolve("torch.distributed.TCPStore")
    if "master_listen_fd" not in (store.__init__.__doc__ or ""):  # a C++ class: its signature is in its text alone
        raise EngineChanged("torch.distributed.TCPStore takes no master_listen_fd")


def install(record: Record) -> None:
    """For a process that may be a rank; READY waits until rank 0 of the server has made its store this way."""
    check()
    record.required = (*record.required, TARGET)
    put_around(TARGET, Rendezvous(record))
    record.installed(TARGET)


class Rendezvous:
    """The hook: rank 0 serves on the address that it was given, the others connect as usual."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __call__(
        self, original: Make, hostname: str, port: int, rank: int, world_size: int, timeout: Any, use_libuv: bool = True
    ) -> Any:
        """torch's own store where this rank serves none, or is told an address that is no loopback.

        A member of several hosts is told its own address, and its ranks are here all the same.
        """
        if hostname == os.environ.get("SGLANG_HOST_IP"):
            hostname = "127.0.0.1"
        if rank != 0 or not is_loopback(hostname):
            return original(hostname, port, rank, world_size, timeout, use_libuv)
        try:
            listener = listening(hostname, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            # This process has a server there for another group, and both share it; or it is another's: torch says so.
            return original(hostname, port, rank, world_size, timeout, use_libuv)
        store = _store(listener, hostname, world_size, timeout, use_libuv)
        self._record.active(TARGET)
        return store


def _store(listener: socket.socket, hostname: str, world_size: int, timeout: Any, use_libuv: bool) -> Any:
    """As torch makes it (`multi_tenant`: one server for all groups at a port), on our socket, which is then its own."""
    from torch.distributed import TCPStore

    port = listener.getsockname()[1]
    return TCPStore(
        host_name=hostname,
        port=port,
        world_size=world_size,
        is_master=True,
        timeout=timeout,
        multi_tenant=True,
        master_listen_fd=listener.detach(),
        use_libuv=use_libuv,
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens on this address alone."""
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.1")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
