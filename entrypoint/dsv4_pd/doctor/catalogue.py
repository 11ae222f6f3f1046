"""Every check, in the order of the report: hardware, placement, host limits, environment, software, model."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, Situation, Verdict, ok
from dsv4_pd.doctor.checks import (
    acs,
    allreduce,
    api_key,
    clock,
    compat_libraries,
    container_toolkit,
    cpuset,
    disk_space,
    docker_version,
    driver_version,
    engine_installed,
    expandable_segments,
    gpu_architecture,
    gpu_ecc,
    gpu_memory,
    gpu_mig,
    gpu_persistence,
    gpu_plan,
    gpu_processes,
    gpu_visible,
    host_memory,
    hub_access,
    huge_pages,
    iommu,
    kernel_version,
    locked_memory,
    memory_fit,
    model_files,
    nccl_overrides,
    numa_binding,
    numa_permission,
    older_deployment,
    open_files,
    pcie_link,
    peer_access,
    ports,
    proxies,
    shared_memory,
    toolchain,
    ucx_overrides,
    unified_memory_device,
    visible_devices,
)

CHECKS: tuple[Check, ...] = (
    gpu_visible.CHECK,
    driver_version.CHECK,
    compat_libraries.CHECK,
    container_toolkit.CHECK,
    unified_memory_device.CHECK,
    gpu_plan.CHECK,
    gpu_architecture.CHECK,
    gpu_memory.CHECK,
    memory_fit.CHECK,
    gpu_mig.CHECK,
    gpu_processes.CHECK,
    gpu_ecc.CHECK,
    gpu_persistence.CHECK,
    pcie_link.CHECK,
    peer_access.CHECK,
    iommu.CHECK,
    acs.CHECK,
    allreduce.CHECK,
    numa_binding.CHECK,
    numa_permission.CHECK,
    cpuset.CHECK,
    host_memory.CHECK,
    shared_memory.CHECK,
    locked_memory.CHECK,
    open_files.CHECK,
    huge_pages.CHECK,
    ports.CHECK,
    expandable_segments.CHECK,
    ucx_overrides.CHECK,
    nccl_overrides.CHECK,
    visible_devices.CHECK,
    proxies.CHECK,
    api_key.CHECK,
    clock.CHECK,
    kernel_version.CHECK,
    docker_version.CHECK,
    older_deployment.CHECK,
    engine_installed.CHECK,
    toolchain.CHECK,
    disk_space.CHECK,
    model_files.CHECK,
    hub_access.CHECK,
)


NOT_ASKED = "does not apply: no GPU is used"


def examine(situation: Situation, checks: tuple[Check, ...] = CHECKS) -> tuple[tuple[Check, Finding], ...]:
    """Ask every check that applies; on the CPU profile the hardware's don't."""
    return tuple(
        (check, check.run(situation) if situation.on_gpus or not check.gpu_only else ok(NOT_ASKED)) for check in checks
    )


def worst(findings: tuple[tuple[Check, Finding], ...]) -> int:
    """doctor's exit code: 0 all well, 1 warnings, 2 failures."""
    verdicts = {finding.verdict for _, finding in findings}
    return 2 if Verdict.FAIL in verdicts else int(Verdict.WARN in verdicts)
