"""What the host is: plain values, read once by `host.read`, replayed from a capture in tests.

`None` always means "could not be read", never "no": a container may hide a file that the host has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from dsv4_pd.host.parse import cpu_list, format_cpu_list


def _numbers(value: Any) -> Any:
    return cpu_list(value) if isinstance(value, str) else value


# In a facts file in the kernel's spelling: "0-3,8".
Numbers = Annotated[frozenset[int], BeforeValidator(_numbers), PlainSerializer(format_cpu_list, when_used="json")]


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory on a GPU; the name is None for a process of another PID namespace."""

    pid: int
    name: str | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A PCIe link: generation and lanes now, and what the card and the slot could do."""

    generation: int | None
    width: int | None
    max_generation: int | None  # of the card
    max_width: int | None
    slot_generation: int | None = None  # card and slot together


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
    socket: int | None = None  # physical package of that node's CPUs
    bridges: tuple[str, ...] = ()  # host bridge first, then each PCI bridge down to the card
    link: PcieLink = PcieLink(None, None, None, None)
    memory_used_bytes: int | None = None
    mig: bool | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    display: bool | None = None
    nvlinks: int | None = None  # active links
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class LostGpu:
    """A card that can't be asked: the driver's index, NVML's words and code for it."""

    index: int
    words: str
    code: int | None = None  # nvmlReturn_t; None where it did not answer at all


@dataclass(frozen=True, slots=True)
class UnlistedGpu:
    """An NVIDIA card on the PCI bus that the driver does not list to us."""

    address: str
    driver: str | None  # the kernel driver that has it: "nvidia", "vfio-pci", ...; None: none


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node: its CPUs (before the cpuset) and its memory in bytes (0 for a node without any)."""

    id: int
    cpus: Numbers
    memory_bytes: int
    distances: tuple[int, ...] = ()  # to each online node, in node order; 10 is itself
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PciBridge:
    """A PCI bridge above a GPU; ACS redirects peer-to-peer traffic up to the root when request redirect is on."""

    address: str
    acs_request_redirect: bool | None  # None: no ACS capability, or config space not readable


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What the kernel grants this process; bytes or counts, -1 for unlimited, None for unread."""

    nofile: int | None = None  # soft
    nofile_hard: int | None = None  # the engine raises its own soft limit up to this
    memlock_bytes: int | None = None
    shm_bytes: int | None = None  # size= of /dev/shm; None: half of the memory
    shm_mounted: bool = False
    memory_limit_bytes: int | None = None  # cgroup
    cpu_quota: float | None = None  # CPUs, from cpu.max
    hugepages: int | None = None  # reserved 2 MiB pages


@dataclass(frozen=True, slots=True)
class Software:
    """Versions on the host; in a container most of them can't be seen."""

    kernel: str | None = None
    container: str | None = None  # "docker", "podman", ... or None on the bare host
    docker: str | None = None
    container_toolkit: str | None = None
    toolkit_in_docker: bool | None = None  # Docker knows the NVIDIA runtime or a CDI spec
    nvidia_devices: tuple[str, ...] = ()  # names below /dev
    driver_libraries: tuple[str, ...] = ()  # libcuda/libnvidia-ml found on the loader path
    selinux: str | None = None  # "permissive", or "enforcing" with the type that confines us
    user_namespace: bool = False  # our root is another user outside


@dataclass(frozen=True, slots=True)
class Unit:
    """An enabled systemd unit that starts a model server or a router, and the ports on its command line."""

    name: str
    command: str
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Everything that placement and checks may know about the machine."""

    gpus: tuple[Gpu, ...]
    numa_nodes: tuple[NumaNode, ...]
    allowed_cpus: Numbers
    driver_version: str | None = None
    gpu_error: str | None = None  # why no GPU could be read, in NVML's words
    gpu_error_code: int | None = None  # nvmlReturn_t of it
    devices_revoked: bool = False  # NVML's "unknown error": the container lost its devices
    lost_gpus: tuple[LostGpu, ...] = ()
    unlisted_gpus: tuple[UnlistedGpu, ...] = ()
    allowed_nodes: Numbers | None = None  # memory nodes of the cpuset
    cuda_version: tuple[int, int] | None = None  # newest CUDA that the driver serves
    peer_access: tuple[tuple[str, ...], ...] = ()  # row and column in gpus' order: "ok", "-" or the driver's reason
    bridges: tuple[PciBridge, ...] = ()
    iommu: str | None = None  # "off", "passthrough" or "translated"
    virtual_machine: bool = False
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    limits: ResourceLimits = ResourceLimits()
    software: Software = Software()
    units: tuple[Unit, ...] = ()
    cpu_model: str | None = None
    clock_skew_s: float | None = None  # system clock minus hardware clock
    unread: tuple[str, ...] = ()  # what a reader failed on, and how: unknown, not absent
