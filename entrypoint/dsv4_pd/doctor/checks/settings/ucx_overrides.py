"""The operator's UCX variables must leave the lanes that KV transfers need."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.situation import Situation

_ALL = {"all", "cuda"}
_LOCAL = {"sm", "shm", "posix", "sysv", "cma", "xpmem", "tcp", "all"}


def _run(s: Situation) -> Finding:
    value = s.env("UCX_TLS").strip()
    lanes = {lane.strip() for lane in value.lstrip("^").split(",") if lane.strip()}
    if value.startswith("^"):
        dropped = lanes & {"cuda", "cuda_ipc", "cuda_copy"}
        if dropped and s.on_gpus:
            return fail(f"UCX_TLS={value} forbids {', '.join(sorted(dropped))}", "unset UCX_TLS")
    elif lanes and s.on_gpus and not (lanes & _ALL or {"cuda_ipc", "cuda_copy"} <= lanes):
        return fail(f"UCX_TLS={value} lacks cuda_ipc and cuda_copy: KV would cross TCP", "unset UCX_TLS")
    elif lanes and not lanes & _LOCAL:
        return fail(f"UCX_TLS={value} lacks a transport for control messages", "unset UCX_TLS, or add sm,tcp,self")
    others = sorted(
        name
        for name in s.around.environ
        if name.startswith("UCX_") and s.env(name) and name not in ("UCX_TLS", "UCX_LOG_LEVEL")
    )
    if others:
        return warn(f"set from outside: {', '.join(others)}", "unset them unless you know that UCX needs them")
    return ok(f"UCX_TLS={value}" if value else "none")


CHECK = Check(
    name="ucx-overrides",
    place=40,
    symptom="KV transfers about 100 times slower than the link, no error anywhere",
    why="UCX silently takes whatever lane is left; without the CUDA ones that is TCP through host memory.",
    source="vllm#52607; ai-dynamo/nixl#1097, PR#2208; sglang#6320",
    run=_run,
    expected="UCX lanes that carry KV transfers",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
