"""No other process may hold memory on the cards in use."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, gib, ok, warn
from dsv4_pd.errors import TemporaryError
from dsv4_pd.plan.situation import Situation

# A desktop or a monitoring tool may hold that much: KV space for it is lost, but the engine's own test of balance
# between the ranks (a tenth of the card) still passes.
HARMLESS = 2 << 30


def _run(s: Situation) -> Finding:
    busy = [(gpu, gpu.memory_used_bytes or 0) for gpu in s.gpus if (gpu.memory_used_bytes or 0) > HARMLESS]
    named = [f"{p.name or 'unknown'} (pid {p.pid}) on GPU {gpu.index}" for gpu in s.gpus for p in gpu.processes]
    if s.around.running:
        return ok(f"{len(named)} processes; an appliance runs here")
    if busy:
        read = "; ".join(f"GPU {gpu.index}: {gib(used)} in use" for gpu, used in busy)
        who = ", ".join(named) or "a process that this container can't see"
        return fail(f"{read}, by {who}", "stop it (nvidia-smi names it on the host), or choose other GPUs")
    if named:
        return warn(", ".join(named), "move them to another card, or expect less KV memory")
    return ok("none")


CHECK = Check(
    name="gpu-processes",
    place=60,
    symptom='"CUDA out of memory" at load, or "The memory capacity is unbalanced"',
    why="The servers take a fixed share of each card; memory that another process holds is missing from it.",
    source="local-inference-lab/blackwell-llm-docker (names the processes first); sglang bootstrap.py balance check",
    run=_run,
    expected="cards that no other process uses",
    fatal=True,
    error=TemporaryError,
)
