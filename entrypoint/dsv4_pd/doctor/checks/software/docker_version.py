"""Docker and the toolkit should be new enough for the image."""

from __future__ import annotations

import re

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.situation import Situation

_DOCKER = 25  # HEALTHCHECK --start-interval
_TOOLKIT = (1, 17)  # CDI by default, and the fix for GPUs lost after a daemon-reload


def _major(version: str) -> int:
    """
    >>> _major("5:28.5.1-1~debian.12")
    28
    """
    match = re.match(r"(?:\d+:)?(\d+)", version)
    return int(match[1]) if match else 0


def _run(s: Situation) -> Finding:
    software = s.facts.software
    if software.docker is None:
        return ok(f"inside {software.container}" if software.container else "no Docker on this host")
    if _major(software.docker) < _DOCKER:
        return warn(f"Docker {software.docker}", "sudo apt install docker-ce (25 or newer knows --start-interval)")
    toolkit = software.container_toolkit
    match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", toolkit or "")
    if match and (int(match[1]), int(match[2])) < _TOOLKIT:
        return warn(f"toolkit {toolkit}", "sudo apt install --only-upgrade nvidia-container-toolkit")
    return ok(f"Docker {software.docker}, toolkit {toolkit}")


CHECK = Check(
    name="docker-version",
    place=30,
    symptom='the container stays "starting" long after it serves; GPUs vanish after a daemon-reload',
    why="Before Docker 25 the health check ignores its start interval; old toolkits lose devices.",
    source="Docker 25.0 release notes; NVIDIA/nvidia-container-toolkit#48",
    run=_run,
    gpu_only=False,
)
