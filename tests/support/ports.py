"""Ports for programs that a test starts."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator

# Below the range from which the kernel takes the near end of a connection: a program may bind its port a minute later,
# when a download is through, and one of that range may be in use by then. The engines' own defaults lie above.
_LOWEST, _HIGHEST, _SLICES = 10_000, 29_000, 8


def _numbers() -> Iterator[int]:
    """Without end, each worker of pytest from a slice of its own, so that none takes what another has not bound yet."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _SLICES
    size = (_HIGHEST - _LOWEST) // _SLICES
    at = random.SystemRandom().randrange(size)
    while True:
        at = (at + random.SystemRandom().randrange(1, 8)) % size
        yield _LOWEST + worker * size + at


_next = _numbers()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that were free a moment ago, all different."""
    found: list[int] = []
    while len(found) < count:
        number = next(_next)
        if number not in found and _is_free(number):
            found.append(number)
    return found


def _is_free(number: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", number)).close()
    except OSError:
        return False
    return True
