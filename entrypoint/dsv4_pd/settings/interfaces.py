"""Network interfaces of this machine and their IPv4 addresses, asked of the kernel."""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from typing import Any

ACCEPTS = "comma-separated network devices, as UCX names them: an interface (eth0), or an RDMA device's port (mlx5_0:1)"
_GET_ADDRESS = 0x8915  # SIOCGIFADDR of netdevice(7)
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,32}(?::[0-9]{1,3})?")


def read(value: Any) -> tuple[str, ...]:
    """The devices of a list.

    >>> read("eth0, mlx5_0:1")
    ('eth0', 'mlx5_0:1')
    """
    if not isinstance(value, str):
        return tuple(value)
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found or not all(_NAME.fullmatch(part) for part in found):
        raise ValueError
    return found


def is_rdma(device: str) -> bool:
    """Whether UCX would use more than TCP on it.

    >>> is_rdma("mlx5_0:1"), is_rdma("eth0")
    (True, False)
    """
    return ":" in device


def address_of(interface: str) -> str | None:
    """Its first IPv4 address; None where it has none, or there is no such interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, _GET_ADDRESS, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def interface_of(address: str) -> str | None:
    """Who has an IPv4 address here; None for an address of another machine."""
    return next((name for _, name in socket.if_nameindex() if address_of(name) == address), None)
