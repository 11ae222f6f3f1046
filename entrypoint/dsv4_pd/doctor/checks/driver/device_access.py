"""Device files that are here must be open to us: SELinux and a user namespace each refuse in their own way."""

from __future__ import annotations

import re

from dsv4_pd.doctor.base import Check, Finding, fail, ok, skip
from dsv4_pd.plan.situation import Situation

_SELINUX = (
    "on the host: sudo setsebool -P container_use_devices on; or for this container alone --security-opt label=disable "
    "(compose: security_opt: [label=disable]). A model folder needs :z, or its own label"
)
_ROOTLESS = (
    "a rootless engine can't make device cgroups: set no-cgroups = true in /etc/nvidia-container-runtime/config.toml, "
    "or use CDI (--device nvidia.com/gpu=all); the user needs the group of /dev/nvidia* "
    "(podman: --group-add keep-groups)"
)


# Types of containers that may not open devices; the runtime's own type and those made for devices may.
_CONFINED = re.compile(r"enforcing, (?:container(?:_\w+)?_t|svirt_lxc_net_t)")
_OPEN = re.compile(r"enforcing, container_(?:device(?:_\w+)?|runtime)_t")


def _is_confined(selinux: str | None) -> bool:
    """
    >>> [_is_confined(f"enforcing, container_{kind}t") for kind in ("", "init_", "device_")]
    [True, True, False]
    """
    return selinux is not None and bool(_CONFINED.fullmatch(selinux)) and not _OPEN.fullmatch(selinux)


def _run(s: Situation) -> Finding:
    software = s.facts.software
    found = [f"SELinux {software.selinux}"] if software.selinux else []
    found += ["a user namespace (rootless engine or userns-remap)"] if software.user_namespace else []
    read = " and ".join(found) or "neither SELinux nor a user namespace confines us"
    if s.facts.gpus or not software.nvidia_devices or not software.container:
        return ok(read) if s.facts.gpus else skip(f"no device file to open here ({read})")
    refused = f"{len(software.nvidia_devices)} device files are here and NVML can't use them; {read}"
    remedies = [_SELINUX] if _is_confined(software.selinux) else []
    remedies += [_ROOTLESS] if software.user_namespace else []
    if remedies:  # each refuses by itself, so both are needed where both are there
        return fail(refused, "; and ".join(remedies))
    return skip(f"NVML's own words tell more, see gpu-visible ({read})")


CHECK = Check(
    name="device-access",
    place=20,
    symptom='"Insufficient Permissions", or no GPU in the container although /dev/nvidia0 is there',
    why="SELinux refuses by label, whatever the user; a user namespace has no access to devices of the host's root.",
    source="container_selinux(8) (container_t, container_init_t, container_device_t, spc_t); "
    "NVIDIA/nvidia-container-toolkit documentation (rootless mode, no-cgroups)",
    run=_run,
)
