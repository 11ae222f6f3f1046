"""What the host is: plain values, read once by `host.read`, replayed from a capture in tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver reports it, in PCI bus order."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str  # "0000:c1:00.0", lower case
    compute_capability: tuple[int, int]
    memory_bytes: int
    numa_node: int | None = None  # None where sysfs says -1


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node: its CPUs (before the cpuset) and its memory in bytes (0 for a node without any)."""

    id: int
    cpus: frozenset[int]
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Everything that placement and checks may know about the machine."""

    gpus: tuple[Gpu, ...]
    numa_nodes: tuple[NumaNode, ...]
    allowed_cpus: frozenset[int]
    driver_version: str | None = None
    gpu_error: str | None = None  # why no GPU could be read, in NVML's words
