"""Members on other hosts, as their router is told of them. Pure.

A prefill is HOST:PORT:BOOTSTRAP, a decode HOST:PORT; each list is comma-separated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

PREFILLS_ACCEPTS = (
    "comma-separated HOST:PORT:BOOTSTRAP, such as 10.0.0.1:30000:8998; a host is a name or an IPv4 address"
)
DECODES_ACCEPTS = "comma-separated HOST:PORT, such as 10.0.0.2:30001; a host is a name or an IPv4 address"
_HOST = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_PREFILL = re.compile(rf"({_HOST}):([0-9]{{1,5}}):([0-9]{{1,5}})")
_DECODE = re.compile(rf"({_HOST}):([0-9]{{1,5}})")


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a member is. bootstrap_port: of a prefill, where decodes find it."""

    host: str
    port: int
    bootstrap_port: int | None = None


def prefills(value: Any) -> tuple[str, ...]:
    """Each in one spelling.

    >>> prefills(" Node-1:30000:08998, 10.0.0.2:30000:8998 ")
    ('node-1:30000:8998', '10.0.0.2:30000:8998')
    """
    return _listed(value, _PREFILL, PREFILLS_ACCEPTS)


def decodes(value: Any) -> tuple[str, ...]:
    """The same for decodes."""
    return _listed(value, _DECODE, DECODES_ACCEPTS)


def parse(text: str) -> Peer:
    """One of those texts.

    >>> parse("node-1:30000:8998")
    Peer(host='node-1', port=30000, bootstrap_port=8998)
    """
    host, port, *bootstrap = text.split(":")
    return Peer(host, int(port), int(bootstrap[0]) if bootstrap else None)


def _listed(value: Any, form: re.Pattern[str], accepts: str) -> tuple[str, ...]:
    if not isinstance(value, str):
        return tuple(value)
    found = tuple(_one(part.strip().lower(), form, accepts) for part in value.split(",") if part.strip())
    servers = [text.rsplit(":", text.count(":") - 1)[0] if text.count(":") > 1 else text for text in found]
    if doubled := next((text for text in servers if servers.count(text) > 1), None):
        raise ValueError(f"{accepts} ({doubled} is listed twice)")
    return found


def _one(part: str, form: re.Pattern[str], accepts: str) -> str:
    match = form.fullmatch(part)
    if match is None:
        raise ValueError(f"{accepts} ({part!r} is none)")
    host, *numbers = match.groups()
    if not all(1 <= int(number) <= 65535 for number in numbers):
        raise ValueError(f"{accepts} ({part!r}: a port is from 1 to 65535)")
    return ":".join([host, *(str(int(number)) for number in numbers)])


def hosts(*lists: tuple[str, ...]) -> tuple[str, ...]:
    """Every host that is named, once."""
    return tuple(dict.fromkeys(parse(text).host for texts in lists for text in texts))
