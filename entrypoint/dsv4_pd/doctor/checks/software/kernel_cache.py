"""Compiled kernels must be loadable from the cache folder."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, skip
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if not s.on_gpus:
        return skip("an engine on the CPU compiles no kernels")
    for disk in s.around.disks:
        if disk.purpose == "cache" and not disk.executable:
            return fail(
                f"{str(disk.path)!r}, mounted noexec",
                "mount a volume there (compose.yaml has one at /var/cache/dsv4-pd), or add `exec` to its --tmpfs",
                disk.setting,
            )
    return ok("libraries may be loaded from the cache folder")


CHECK = Check(
    name="kernel-cache",
    place=90,
    symptom='"failed to map segment from shared object: Operation not permitted" at each start',
    why="The engine loads every kernel of its own from a library in the cache folder, also those that the image brings "
    "compiled. Docker mounts a --tmpfs without `exec`, where that is refused, after minutes of compiling.",
    source="tmpfs mount options, docs.docker.com/engine/storage/tmpfs; dlopen(3)",
    run=_run,
    expected="a file system that may execute",
    fatal=True,
    error=SettingsError,
)
