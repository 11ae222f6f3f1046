"""Every check, in the order of the report: driver, GPUs, links, host, settings, software, model."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from dsv4_pd.doctor import checks
from dsv4_pd.doctor.base import Check, CheckVerdict, Finding, skip, warn
from dsv4_pd.plan.situation import Situation

# A new check is a module in a room of dsv4_pd.doctor.checks with a CHECK, and its name here.
ROOMS: Mapping[str, tuple[str, ...]] = {
    "driver": (
        "gpu_visible",
        "device_access",
        "driver_version",
        "compat_libraries",
        "container_toolkit",
        "unified_memory_device",
    ),
    "gpus": (
        "gpu_plan",
        "gpu_architecture",
        "gpu_memory",
        "memory_fit",
        "gpu_mig",
        "gpu_processes",
        "gpu_ecc",
        "gpu_persistence",
    ),
    "links": (
        "pcie_link",
        "peer_access",
        "iommu",
        "acs",
        "all_reduce",
    ),
    "host": (
        "numa_binding",
        "numa_permission",
        "cpus",
        "host_files",
        "host_memory",
        "shared_memory",
        "locked_memory",
        "open_files",
        "huge_pages",
    ),
    "settings": (
        "listen_address",
        "ports",
        "expandable_segments",
        "engine_overrides",
        "ucx_overrides",
        "nccl_overrides",
        "visible_devices",
        "proxies",
        "api_key",
        "door_files",
        "deprecated_settings",
    ),
    "software": (
        "clock",
        "kernel_version",
        "docker_version",
        "stop_grace",
        "older_deployment",
        "engine_installed",
        "toolchain",
        "disk_space",
        "kernel_cache",
    ),
    "model": (
        "model_files",
        "model_known",
        "hub_access",
    ),
}
ORDER = tuple(name for names in ROOMS.values() for name in names)
CHECKS: tuple[Check, ...] = tuple(
    import_module(f"{checks.__name__}.{room}.{name}").CHECK for room, names in ROOMS.items() for name in names
)
_NO_GPU = skip("about GPUs and their host; this profile uses none")

Findings = tuple[tuple[Check, Finding], ...]


def examine(situation: Situation, asked: tuple[Check, ...] = CHECKS) -> Findings:
    """Ask every check that applies; on the CPU profile the hardware's don't."""
    return tuple((check, _ask(check, situation)) for check in asked)


def _ask(check: Check, situation: Situation) -> Finding:
    """One finding. A check that breaks costs its own line: the others still speak, and a start goes on."""
    if check.gpu_only and not situation.on_gpus:
        return _NO_GPU
    try:
        return check.run(situation)
    except Exception as error:  # a fault of ours in one check must not hide what the others found
        read = f"check {check.name} failed: {type(error).__name__}: {error}"
        return warn(read, "please report this, with `dsv4-pd support-bundle`")


def worst(findings: Findings) -> int:
    """doctor's exit code: 0 all well, 1 warnings, 2 failures."""
    verdicts = {finding.verdict for _, finding in findings}
    return 2 if CheckVerdict.FAIL in verdicts else int(CheckVerdict.WARN in verdicts)
