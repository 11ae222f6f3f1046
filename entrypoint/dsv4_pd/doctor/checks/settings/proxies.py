"""A proxy must not see the calls between our own programs."""

from __future__ import annotations

import ipaddress

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation

_PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_LOOPBACK = ipaddress.ip_address("127.0.0.1")


def _run(s: Situation) -> Finding:
    used = [name for name in _PROXIES if s.env(name)]
    if not used:
        return ok("none")
    if not excepts_loopback(s.env("NO_PROXY") or s.env("no_proxy")):
        return warn(
            f"{', '.join(used)} set, NO_PROXY without 127.0.0.1",
            "set NO_PROXY=127.0.0.1,localhost (our own programs never use a proxy there; your curl does)",
        )
    return ok(f"{', '.join(used)}; loopback is excepted")


def excepts_loopback(listed: str) -> bool:
    """Whether a NO_PROXY list keeps 127.0.0.1 off the proxy: by name, by network, or all. Blanks around are none.

    >>> [excepts_loopback(text) for text in ("corp, 127.0.0.1", "127.0.0.0/8", "*", "10.0.0.0/8", "127.0.0.10")]
    [True, True, True, False, False]
    """
    return any(_covers(entry) for entry in listed.replace(",", " ").split())


def _covers(entry: str) -> bool:
    if entry == "*":
        return True
    try:
        return _LOOPBACK in ipaddress.ip_network(entry.split(":", maxsplit=1)[0], strict=False)
    except ValueError:  # a name
        return False


CHECK = Check(
    name="proxies",
    place=70,
    symptom="the API answers 502 or 407 with a proxy's page; health probes fail on a healthy pair",
    why="Programs that honour a proxy send even loopback calls through it unless NO_PROXY says otherwise.",
    source="curl and requests documentation (NO_PROXY); docker's proxy settings reach every container",
    run=_run,
    gpu_only=False,
)
