"""Every port must be free."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, Situation, fail, ok
from dsv4_pd.errors import TemporaryError


def _run(s: Situation) -> Finding:
    if not s.around.busy_ports:
        return ok("all free")
    if s.around.running:
        return ok(f"{len(s.around.busy_ports)} in use by the running appliance")
    read = "; ".join(f"{port.setting}: {port.host}:{port.number} {why}" for port, why in s.around.busy_ports)
    first = s.around.busy_ports[0][0]
    return fail(read, f"stop what listens there (ss -ltnp 'sport = :{first.number}'), or set {first.setting}")


CHECK = Check(
    name="ports",
    symptom='"address already in use" minutes after the start, or a pair that never finds itself',
    why="A failed bind of the bootstrap port is only logged: the server says it is ready and no request works.",
    source="sglang PR#21268, #37215, common/conn.py (silent bind failure); NVIDIA/srt-slurm PR#155",
    run=_run,
    expected="a port that can be bound",
    fatal=True,
    error=TemporaryError,
    gpu_only=False,
)
