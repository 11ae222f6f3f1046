"""The operator's NCCL variables should leave the fast paths."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.situation import Situation

_ON = {"1", "true", "yes"}


def _run(s: Situation) -> Finding:
    p2p_off = s.env("NCCL_P2P_DISABLE").lower() in _ON or s.env("NCCL_P2P_LEVEL") in ("LOC", "0")
    shm_off = s.env("NCCL_SHM_DISABLE").lower() in _ON
    if p2p_off and shm_off:
        return fail("NCCL_P2P_DISABLE and NCCL_SHM_DISABLE leave only sockets", "unset one of the two")
    if p2p_off:
        return warn("NCCL does without peer copies", "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL once peer copies work")
    if shm_off:
        return warn("NCCL does without shared memory", "unset NCCL_SHM_DISABLE; give the container --shm-size=32g")
    others = sorted(name for name in s.around.environ if name.startswith("NCCL_") and s.env(name))
    return ok(f"set from outside: {', '.join(others)}" if others else "none")


CHECK = Check(
    name="nccl-overrides",
    place=50,
    symptom="all-reduce takes most of each step, or NCCL finds no transport",
    why="Peer copies, then shared memory, then sockets: each step down costs about a factor of ten in latency.",
    source="NCCL user guide (environment variables); local-inference-lab/rtx6kpro#15",
    run=_run,
    expected="a fast path left to NCCL",
    fatal=True,
    error=SettingsError,
)
