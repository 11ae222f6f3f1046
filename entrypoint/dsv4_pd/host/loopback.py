"""Which addresses only this machine can connect to."""

from __future__ import annotations

import ipaddress

LOOPBACK = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Whether an address, or a URL's host, is this machine alone. A name counts only if it is `localhost`.

    >>> [is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "[::1]", "localhost", "0.0.0.0", "::", "")]
    [True, True, True, True, False, False, False]
    """
    bare = host.strip().strip("[]").rstrip(".").lower()
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False
