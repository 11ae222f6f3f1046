"""A proxy must not see the calls between our own programs."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation

_PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def _run(s: Situation) -> Finding:
    used = [name for name in _PROXIES if s.env(name)]
    if not used:
        return ok("none")
    listed = (s.env("NO_PROXY") or s.env("no_proxy")).split(",")
    if "127.0.0.1" not in listed and "*" not in listed:
        return warn(
            f"{', '.join(used)} set, NO_PROXY without 127.0.0.1",
            "set NO_PROXY=127.0.0.1,localhost (the servers get it in any case; your own curl does not)",
        )
    return ok(f"{', '.join(used)}; loopback is excepted")


CHECK = Check(
    name="proxies",
    symptom="the API answers 502 or 407 with a proxy's page; health probes fail on a healthy pair",
    why="Programs that honour a proxy send even loopback calls through it unless NO_PROXY says otherwise.",
    source="curl and requests documentation (NO_PROXY); docker's proxy settings reach every container",
    run=_run,
    gpu_only=False,
)
