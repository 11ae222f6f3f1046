"""CUDA forward-compatibility libraries must not shadow the driver's own."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    path = [part for part in s.env("LD_LIBRARY_PATH").split(":") if part]
    first = next((part for part in path if "compat" in part), None)
    if first:
        return fail(f"LD_LIBRARY_PATH has {first}", "take the compat folder out of LD_LIBRARY_PATH")
    found = [name for name in s.facts.software.driver_libraries if "/compat/" in name and "libcuda" in name]
    return ok(f"{len(found)} compat libraries, none on the loader path" if found else "no compat libraries")


CHECK = Check(
    name="compat-libraries",
    place=40,
    symptom='error 804 ("forward compatibility was attempted on non supported HW") or wrong CUDA version',
    why="Workstation cards don't support CUDA forward compatibility: its libcuda in front of the driver's fails.",
    source="textgen#4407 (error 804); local-inference-lab/rtx6kpro common-issues (compat folder must be masked)",
    run=_run,
    expected="no compat libraries in front of the driver's",
    fatal=True,
)
