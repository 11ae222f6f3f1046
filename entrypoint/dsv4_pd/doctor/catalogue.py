"""Every check, in the order of the report: hardware, placement, host limits, environment, software, model."""

from __future__ import annotations

from importlib import import_module

from dsv4_pd.doctor import checks
from dsv4_pd.doctor.base import Check, CheckVerdict, Finding, skip, warn
from dsv4_pd.plan.situation import Situation

# A new check is a module of dsv4_pd.doctor.checks with a CHECK, and its name here.
ORDER = (
    "gpu_visible",
    "device_access",
    "driver_version",
    "compat_libraries",
    "container_toolkit",
    "unified_memory_device",
    "gpu_plan",
    "gpu_architecture",
    "gpu_memory",
    "memory_fit",
    "gpu_mig",
    "gpu_processes",
    "gpu_ecc",
    "gpu_persistence",
    "pcie_link",
    "peer_access",
    "iommu",
    "acs",
    "all_reduce",
    "numa_binding",
    "numa_permission",
    "cpus",
    "host_files",
    "host_memory",
    "shared_memory",
    "locked_memory",
    "open_files",
    "huge_pages",
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
    "clock",
    "kernel_version",
    "docker_version",
    "stop_grace",
    "older_deployment",
    "engine_installed",
    "toolchain",
    "disk_space",
    "kernel_cache",
    "model_files",
    "model_known",
    "hub_access",
)
CHECKS: tuple[Check, ...] = tuple(import_module(f"{checks.__name__}.{name}").CHECK for name in ORDER)
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
