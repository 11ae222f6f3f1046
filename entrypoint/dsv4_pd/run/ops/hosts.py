"""Which names the ops port answers to: a page in a browser must not read it under a name of its own (DNS rebinding).

A stranger's web page can point its own domain at our address, and the browser then lets its script read the answers.
It can't do that with an address, with a name that has no dot, or with a name below a domain that nobody can register.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection

# Reserved, or used inside networks only: RFC 6761, 6762, 8375, ICANN's .internal, Kubernetes' services.
_PRIVATE = ("localhost", "local", "internal", "home.arpa", "lan", "svc", "cluster.local", "test")


def own_names(listens_on: str) -> frozenset[str]:
    """This machine's or container's own names, and the one that the operator gave as the address to listen on."""
    return frozenset(_bare(name) for name in (socket.gethostname(), listens_on) if name)


def answers_to(host: str | None, own: Collection[str]) -> bool:
    """Whether a request with this Host header may be answered with what only an operator should see.

    >>> all(answers_to(host, {"gpu1.example.org"}) for host in ("127.0.0.1:8001", "[::1]:8001", "dsv4-pd:8001", None))
    True
    >>> [answers_to(host, {"gpu1.example.org"}) for host in ("GPU1.example.org.", "evil.example", "127.0.0.1.evil.io")]
    [True, False, False]
    """
    if not host:
        return True  # HTTP/1.0; a browser always says it
    name = _bare(host)
    return _is_address(name) or "." not in name or name in own or name.endswith(tuple(f".{end}" for end in _PRIVATE))


def _bare(host: str) -> str:
    """Without port, brackets and the root's dot."""
    text = host.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return (text if text.count(":") > 1 else text.partition(":")[0]).removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
