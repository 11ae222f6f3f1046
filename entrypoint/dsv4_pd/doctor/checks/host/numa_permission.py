"""The kernel must let us set a memory policy."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    permission = s.around.numa
    if s.settings.numa == "off" or permission.policy == "membind":
        return ok("off by DSV4_NUMA" if s.settings.numa == "off" else "numactl --membind works")
    read = f"the strongest that works is {permission.policy} ({permission.reason})"
    remedy = "start the container with --cap-add SYS_NICE (compose: cap_add: [SYS_NICE])"
    if not permission.installed:
        remedy = "sudo apt install numactl"
    if s.settings.numa == "strict":
        return fail(f"{read}, and DSV4_NUMA is strict", remedy)
    return warn(read, remedy)


CHECK = Check(
    name="numa-permission",
    place=20,
    symptom="a server exits with code 1 and no traceback before it starts",
    why="Docker's seccomp profile refuses set_mempolicy without SYS_NICE; we fall back step by step.",
    source="sglang#27368 and PR#28401; vllm PR#45438; ktransformers#350",
    run=_run,
    expected="permission to set a memory policy",
    fatal=True,
    error=SettingsError,
)
