"""/dev/shm must hold NCCL's and the engine's buffers."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, gib, ok, warn
from dsv4_pd.plan.situation import Situation

GIB = 1 << 30
_NEED, _WISH = 1 * GIB, 8 * GIB


def _run(s: Situation) -> Finding:
    limits = s.facts.limits
    if not limits.shm_mounted:
        return fail("/dev/shm is not mounted", "start the container with --ipc=host or --shm-size=32g")
    size = limits.shm_bytes if limits.shm_bytes is not None else (s.facts.memory_bytes or 0) // 2
    if size < _NEED:
        return fail(
            f"{gib(size)}; Docker's default is 64 MiB",
            "start the container with --ipc=host or --shm-size=32g (compose: shm_size: 32g)",
        )
    if size < _WISH:
        return warn(gib(size), "--shm-size=32g leaves room for NCCL and UCX with eight ranks")
    return ok(gib(size))


CHECK = Check(
    name="shared-memory",
    place=60,
    symptom='"unhandled system error" from NCCL, or "Bus error" in a rank',
    why="NCCL and UCX exchange data between the ranks through /dev/shm; a full one kills the process.",
    source="NCCL user guide, troubleshooting (shared memory in Docker)",
    run=_run,
    expected="1 GiB or more of /dev/shm",
    fatal=True,
)
