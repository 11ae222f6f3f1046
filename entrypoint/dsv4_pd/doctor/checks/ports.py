"""Every port must be free."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.errors import TemporaryError
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if not s.busy_ports:
        return ok("all free")
    if s.around.running:
        return ok(f"{len(s.busy_ports)} in use by the running appliance")
    (first, why), *others = s.busy_ports
    more = "".join(f"; {port.setting}: {port.host}:{port.number} {reason}" for port, reason in others)
    remedy = f"stop what listens there (ss -ltnp 'sport = :{first.number}'), or set {first.setting}"
    return fail(f"{first.host}:{first.number} {why}{more}", remedy, first.setting)


CHECK = Check(
    name="ports",
    symptom='"address already in use" minutes after the start, or a pair whose servers never connect',
    why="A failed bind of the bootstrap port is only logged: the server says it is ready and no request works.",
    source="sglang PR#21268, #37215, common/conn.py (silent bind failure); NVIDIA/srt-slurm PR#155",
    run=_run,
    expected="a port that can be bound",
    fatal=True,
    error=TemporaryError,
    gpu_only=False,
)
