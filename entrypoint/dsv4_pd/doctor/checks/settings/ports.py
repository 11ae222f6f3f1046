"""Every port must be free; one that can never be bound is for listen-address to say."""

from __future__ import annotations

import os

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.doctor.checks.settings.listen_address import WRONG
from dsv4_pd.errors import TemporaryError
from dsv4_pd.plan.placement.members import Port
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    busy = [(port, code) for port, code in s.busy_ports if code not in WRONG]
    if not busy:
        return ok("all free")
    if s.around.running:
        return ok(f"{len(busy)} in use by the running appliance")
    (first, code), *others = busy
    more = "".join(f"; {port.setting}: {_told(port, reason)}" for port, reason in others)
    remedy = f"stop what listens there (ss -ltnp 'sport = :{first.number}'), or set {first.setting}"
    return fail(f"{_told(first, code)}{more}", remedy, first.setting)


def _told(port: Port, code: int) -> str:
    return f"{port.host}:{port.number} can't be bound ({os.strerror(code).lower()})"


CHECK = Check(
    name="ports",
    place=20,
    symptom='"address already in use" minutes after the start, or a pair whose servers never connect',
    why="A failed bind of the bootstrap port is only logged: the server says it is ready and no request works.",
    source="sglang PR#21268, #37215, common/conn.py (silent bind failure); NVIDIA/srt-slurm PR#155",
    run=_run,
    expected="a port that can be bound",
    fatal=True,
    error=TemporaryError,
    gpu_only=False,
)
