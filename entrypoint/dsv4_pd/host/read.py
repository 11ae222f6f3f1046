"""Reads the machine once: `facts_of(machine) -> HostFacts`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dsv4_pd.host import parse
from dsv4_pd.host.facts import Gpu, GpuProcess, HostFacts, NumaNode, PciBridge, PcieLink
from dsv4_pd.host.machine import Machine, machine_at
from dsv4_pd.host.system import clock_skew, read_limits, read_software, read_units

_NODES = "/sys/devices/system/node"
_PCI = "/sys/bus/pci/devices"
_NVML_UNKNOWN = 999


def read_facts(root: Path = Path("/")) -> HostFacts:
    """Everything that placement and checks may know about the machine below a root."""
    return facts_of(machine_at(root))


def probe_node(facts: HostFacts) -> int:
    """The NUMA node on which a memory policy is tried: the cpuset may exclude others."""
    return min(facts.allowed_nodes or {0})


def facts_of(machine: Machine) -> HostFacts:
    """The facts of a machine, live or replayed."""
    status = machine.text("/proc/self/status") or ""
    meminfo = machine.text("/proc/meminfo") or ""
    cpuinfo = (machine.text("/proc/cpuinfo") or "")[:8192]
    nodes = _numa_nodes(machine)
    answers = machine.nvml()
    gpus = _gpus(machine, answers, nodes)
    version = answers.get("cuda_version")
    return HostFacts(
        gpus=gpus,
        numa_nodes=nodes,
        allowed_cpus=parse.status_list(status, "Cpus_allowed_list") or _all_cpus(nodes),
        driver_version=answers.get("driver_version"),
        gpu_error=answers.get("error") or (None if gpus else "the driver lists no GPU"),
        devices_revoked=_revoked(answers),
        lost_gpus=tuple((card["index"], card["error"]) for card in answers.get("lost", [])),
        allowed_nodes=parse.status_list(status, "Mems_allowed_list"),
        cuda_version=None if version is None else (version // 1000, version % 1000 // 10),
        peer_access=_peer_access(answers),
        bridges=_bridges(machine, gpus),
        iommu=_iommu(machine),
        virtual_machine=" hypervisor" in cpuinfo,
        cpu_model=parse.cpu_model(cpuinfo),
        memory_bytes=parse.meminfo(meminfo, "MemTotal"),
        memory_available_bytes=parse.meminfo(meminfo, "MemAvailable"),
        limits=read_limits(machine),
        software=read_software(machine),
        units=read_units(machine),
        clock_skew_s=clock_skew(machine),
    )


def _revoked(answers: dict[str, Any]) -> bool:
    """NVML_ERROR_UNKNOWN; captures of older versions hold only NVML's words for it."""
    code = answers.get("error_code")
    return code == _NVML_UNKNOWN if code is not None else "Unknown Error" in (answers.get("error") or "")


def _numa_nodes(machine: Machine) -> tuple[NumaNode, ...]:
    online = parse.cpu_list(machine.text(f"{_NODES}/online") or "")
    return tuple(_numa_node(machine, number) for number in sorted(online))


def _numa_node(machine: Machine, number: int) -> NumaNode:
    folder = f"{_NODES}/node{number}"
    memory = machine.text(f"{folder}/meminfo") or ""
    return NumaNode(
        id=number,
        cpus=parse.cpu_list(machine.text(f"{folder}/cpulist") or ""),
        memory_bytes=parse.meminfo(memory, "MemTotal") or 0,
        distances=tuple(int(word) for word in (machine.text(f"{folder}/distance") or "").split()),
        free_bytes=parse.meminfo(memory, "MemFree"),
    )


def _all_cpus(nodes: tuple[NumaNode, ...]) -> frozenset[int]:
    return frozenset().union(*(node.cpus for node in nodes))


def _gpus(machine: Machine, answers: dict[str, Any], nodes: tuple[NumaNode, ...]) -> tuple[Gpu, ...]:
    sockets = {node.id: _socket(machine, node) for node in nodes}
    found = (_gpu(machine, raw, sockets) for raw in answers.get("gpus", []))
    return tuple(sorted(found, key=lambda gpu: gpu.pci_bus_id))


def _gpu(machine: Machine, raw: dict[str, Any], sockets: dict[int, int | None]) -> Gpu:
    address = parse.bus_id(raw["pci_bus_id"])
    node = _device_node(machine, address, sockets)
    major, minor = raw["compute_capability"]
    return Gpu(
        index=raw["index"],
        uuid=raw["uuid"],
        name=raw["name"],
        pci_bus_id=address,
        compute_capability=(major, minor),
        memory_bytes=raw["memory_total"],
        numa_node=node,
        socket=None if node is None else sockets.get(node),
        bridges=parse.bridges(machine.link(f"{_PCI}/{address}") or ""),
        link=_link(machine, raw, address),
        memory_used_bytes=raw.get("memory_used"),
        mig=raw.get("mig"),
        ecc=raw.get("ecc"),
        persistence=raw.get("persistence"),
        display=raw.get("display"),
        nvlinks=raw.get("nvlinks"),
        processes=tuple(_process(machine, item) for item in raw.get("processes", [])),
    )


def _device_node(machine: Machine, address: str, sockets: dict[int, int | None]) -> int | None:
    """The node of a PCI device. On a machine with one node, -1 can only mean that one."""
    text = (machine.text(f"{_PCI}/{address}/numa_node") or "-1").strip()
    node = int(text) if text.lstrip("-").isdecimal() else -1
    if node >= 0:
        return node
    return next(iter(sockets)) if len(sockets) == 1 else None


def _socket(machine: Machine, node: NumaNode) -> int | None:
    if not node.cpus:
        return None
    path = f"/sys/devices/system/cpu/cpu{min(node.cpus)}/topology/physical_package_id"
    text = (machine.text(path) or "").strip()
    return int(text) if text.isdecimal() else None


def _link(machine: Machine, raw: dict[str, Any], address: str) -> PcieLink:
    """Widths from sysfs as well: the card's own maximum, where NVML answers for card and slot together."""
    width = (machine.text(f"{_PCI}/{address}/max_link_width") or "").strip()
    return PcieLink(
        generation=raw.get("pcie_generation"),
        width=raw.get("pcie_width"),
        max_generation=raw.get("pcie_card_generation") or raw.get("pcie_max_generation"),
        max_width=int(width) if width.isdecimal() and 0 < int(width) < 64 else raw.get("pcie_max_width"),
        slot_generation=raw.get("pcie_max_generation"),
    )


def _process(machine: Machine, raw: dict[str, Any]) -> GpuProcess:
    name = raw.get("name") or (machine.text(f"/proc/{raw['pid']}/comm") or "").strip()
    return GpuProcess(pid=raw["pid"], name=name or None, memory_bytes=raw.get("memory"))


def _peer_access(answers: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """NVML's matrix, put into the order of `HostFacts.gpus` (PCI bus order)."""
    matrix = answers.get("peer_access") or []
    gpus = answers.get("gpus", [])
    if len(matrix) != len(gpus):
        return ()
    order = sorted(range(len(gpus)), key=lambda i: parse.bus_id(gpus[i]["pci_bus_id"]))
    return tuple(tuple(matrix[row][column] for column in order) for row in order)


def _bridges(machine: Machine, gpus: tuple[Gpu, ...]) -> tuple[PciBridge, ...]:
    addresses = sorted({bridge for gpu in gpus for bridge in gpu.bridges[1:]})
    return tuple(
        PciBridge(address, parse.acs_request_redirect(machine.data(f"{_PCI}/{address}/config") or b""))
        for address in addresses
    )


def _iommu(machine: Machine) -> str | None:
    cmdline = machine.text("/proc/cmdline")
    if cmdline is None:
        return None
    groups = machine.names("/sys/kernel/iommu_groups")
    kinds = tuple((machine.text(f"/sys/kernel/iommu_groups/{name}/type") or "").strip() for name in groups)
    return parse.iommu_mode(tuple(filter(None, kinds)), bool(machine.names("/sys/class/iommu")), cmdline)
