"""The driver must list GPUs to this process."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if s.facts.gpus and s.facts.lost_gpus:
        lost = "; ".join(f"GPU {index}: {words}" for index, words in s.facts.lost_gpus)
        return warn(
            f"{len(s.facts.gpus)} GPUs answer, {len(s.facts.lost_gpus)} do not ({lost})",
            "look for Xid lines in the host's kernel log; `nvidia-smi --gpu-reset` or a reboot may bring it back",
        )
    if s.facts.gpus:
        return ok(f"{len(s.facts.gpus)} GPUs listed by driver {s.facts.driver_version}")
    words = s.facts.gpu_error or "none listed"
    if s.facts.devices_revoked:
        return fail(
            f"NVML: {words}: the container lost its GPUs (systemctl daemon-reload on the host does that)",
            "re-create the container: docker compose up -d --force-recreate",
        )
    if s.facts.software.container:
        return fail(words, "start the container with --gpus all, or compose's GPU reservation")
    return fail(words, "sudo apt install nvidia-open && sudo reboot; `DSV4_PROFILE=demo-cpu` runs without a GPU")


CHECK = Check(
    name="gpu-visible",
    symptom='"no GPU visible", exit code 70',
    why="Everything but the CPU demo needs them. Restarting inside the container can't bring lost GPUs back.",
    source="NVIDIA/nvidia-container-toolkit#48 and #1227; infiniflow/ragflow#9573",
    run=_run,
    expected="NVIDIA GPUs that the driver lists",
    fatal=True,
)
