"""A folder, and room in it, for the model, the compiled kernels and the state."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, gib, ok, warn
from dsv4_pd.plan.around.surroundings import Disk
from dsv4_pd.plan.situation import Situation

GIB = 1 << 30
_MARGIN = 2 * GIB  # beside the model's files
_NEED = {"cache": 8 * GIB, "state": GIB // 16, "run": GIB // 16}


def _need(s: Situation, disk: Disk) -> int:
    if disk.purpose == "model":
        entry = s.around.entry  # of another model the download asks for the size, and for the room
        return entry.weights_bytes + _MARGIN if entry and entry.weights_bytes else GIB
    return _NEED[disk.purpose] if s.on_gpus or disk.purpose != "cache" else GIB // 16


def _run(s: Situation) -> Finding:
    if blocked := [d for d in s.around.disks if d.blocked]:
        d = blocked[0]
        return fail(f"{d.purpose}: {d.blocked} is no folder", f"remove it, or set {d.setting} to a folder", d.setting)
    short = [d for d in s.around.disks if d.free_bytes is not None and d.free_bytes < _need(s, d)]
    parts = [f"{d.purpose} {gib(d.free_bytes)} free at {d.path}" for d in s.around.disks if d.free_bytes is not None]
    if short:
        d = short[0]
        act = fail if d.purpose in ("model", "state", "run") else warn
        return act(
            f"{d.purpose}: {gib(d.free_bytes or 0)} free at {d.path}, {gib(_need(s, d))} needed",
            f"free space there, or point {d.setting} to a larger disk",
        )
    return ok("; ".join(parts) or "not measured")


CHECK = Check(
    name="disk-space",
    place=80,
    symptom='"No space left on device" in the middle of a download or of a kernel build',
    why="The checkpoint takes about 160 GB once; compiled kernels take some GB more.",
    source="the checkpoint's index (total size); peers' pages on JIT cache sizes",
    run=_run,
    gpu_only=False,
)
