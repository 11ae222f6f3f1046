"""Docker needs the NVIDIA container toolkit to hand GPUs to a container."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    software = s.facts.software
    if software.container:
        return ok(f"inside {software.container}; GPUs arrive: {'yes' if s.facts.gpus else 'no'}")
    if software.docker is None:
        return ok("no Docker on this host")
    if software.container_toolkit is None:
        return fail(
            f"Docker {software.docker} without the NVIDIA container toolkit",
            "sudo apt install nvidia-container-toolkit && sudo nvidia-ctk runtime configure "
            "--runtime=docker && sudo systemctl restart docker",
        )
    if not software.toolkit_in_docker:
        return warn(
            f"toolkit {software.container_toolkit}, but Docker knows no nvidia runtime and no CDI spec",
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        )
    return ok(f"toolkit {software.container_toolkit}, known to Docker")


CHECK = Check(
    name="container-toolkit",
    place=50,
    symptom='docker: "could not select device driver "" with capabilities: [[gpu]]"',
    why="Without the toolkit a container gets no device files and no driver libraries.",
    source="infiniflow/ragflow#9573; NVIDIA container toolkit install guide",
    run=_run,
)
