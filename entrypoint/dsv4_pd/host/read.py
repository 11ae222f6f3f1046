"""Reads the machine once: `facts_of(machine) -> HostFacts`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dsv4_pd.host import parse
from dsv4_pd.host.facts import Gpu, GpuProcess, HostFacts, NumaNode, PciBridge, PcieLink, ResourceLimits, Software
from dsv4_pd.host.machine import Machine, machine_at
from dsv4_pd.host.system import clock_skew, read_limits, read_software, read_units

_NODES = "/sys/devices/system/node"
_PCI = "/sys/bus/pci/devices"
_NVML_UNKNOWN = 999
_Found = TypeVar("_Found")


def read_facts(root: Path = Path("/")) -> HostFacts:
    """Everything that placement and checks may know about the machine below a root."""
    return facts_of(machine_at(root))


def probe_node(facts: HostFacts) -> int:
    """The NUMA node on which a memory policy is tried: the cpuset may exclude others."""
    return min(facts.allowed_nodes or {0})


def facts_of(machine: Machine) -> HostFacts:
    """The facts of a machine, live or replayed. What can't be read is unknown, named in `unread`, and hides nothing."""
    tried = Tried()
    nodes = tried("NUMA nodes", lambda: _numa_nodes(machine), ())
    answers = tried("NVML", machine.nvml, {"error": "NVML's answers can't be read", "gpus": []})
    gpus, broken = _gpus(machine, answers, nodes, tried)
    words = answers.get("error") or (None if gpus else "the driver lists no GPU")
    facts = HostFacts(
        gpus=gpus,
        numa_nodes=nodes,
        allowed_cpus=tried("allowed CPUs", lambda: _allowed_cpus(machine, nodes), frozenset()),
        driver_version=answers.get("driver_version"),
        gpu_error=words,
        gpu_error_code=answers.get("error_code"),
        devices_revoked=_revoked(answers),
        lost_gpus=(*tried("lost GPUs", lambda: _lost(answers), ()), *broken),
        allowed_nodes=tried("allowed nodes", lambda: _status(machine, "Mems_allowed_list"), None),
        cuda_version=tried("CUDA version", lambda: _cuda(answers), None),
        peer_access=tried("peer access", lambda: _peer_access(answers, gpus), ()),
        bridges=tried("PCI bridges", lambda: _bridges(machine, gpus), ()),
        iommu=tried("IOMMU", lambda: _iommu(machine, gpus), None),
        limits=tried("limits", lambda: read_limits(machine), ResourceLimits()),
        software=tried("software", lambda: read_software(machine), Software()),
        units=tried("systemd units", lambda: read_units(machine), ()),
        clock_skew_s=tried("clock", lambda: clock_skew(machine), None),
        **tried("memory and processor", lambda: _box(machine), {}),
    )
    return replace(facts, unread=tuple(tried.failed))


class Tried:
    """Readers, each on its own: one that raises costs what it reads, and is named."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def __call__(self, what: str, reader: Callable[[], _Found], default: Any) -> _Found:
        try:
            return reader()
        except Exception as error:  # a file that nobody foresaw must not hide the rest of the machine
            self.failed.append(f"{what} ({type(error).__name__}: {' '.join(str(error).split())[:120]})")
            fallback: _Found = default
            return fallback


def _status(machine: Machine, key: str) -> frozenset[int] | None:
    return parse.status_list(machine.text("/proc/self/status") or "", key)


def _allowed_cpus(machine: Machine, nodes: tuple[NumaNode, ...]) -> frozenset[int]:
    return _status(machine, "Cpus_allowed_list") or _all_cpus(nodes)


def _box(machine: Machine) -> dict[str, Any]:
    meminfo = machine.text("/proc/meminfo") or ""
    cpuinfo = (machine.text("/proc/cpuinfo") or "")[:8192]
    return {
        "virtual_machine": " hypervisor" in cpuinfo,
        "cpu_model": parse.cpu_model(cpuinfo),
        "memory_bytes": parse.meminfo(meminfo, "MemTotal"),
        "memory_available_bytes": parse.meminfo(meminfo, "MemAvailable"),
    }


def _cuda(answers: dict[str, Any]) -> tuple[int, int] | None:
    version = answers.get("cuda_version")
    return None if version is None else (version // 1000, version % 1000 // 10)


def _lost(answers: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    return tuple((card["index"], card["error"]) for card in answers.get("lost", []))


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
        distances=_distances(machine.text(f"{folder}/distance") or ""),
        free_bytes=parse.meminfo(memory, "MemFree"),
    )


def _distances(text: str) -> tuple[int, ...]:
    """Distances to each node; none where one of them can't be read, because their places count."""
    found = [parse.number(word) for word in text.split()]
    return tuple(item for item in found if item is not None) if None not in found else ()


def _all_cpus(nodes: tuple[NumaNode, ...]) -> frozenset[int]:
    return frozenset().union(*(node.cpus for node in nodes))


def _gpus(
    machine: Machine, answers: dict[str, Any], nodes: tuple[NumaNode, ...], tried: Tried
) -> tuple[tuple[Gpu, ...], list[tuple[int, str]]]:
    """(cards in PCI bus order, those whose answers make no card: index and why)."""
    sockets = {node.id: tried(f"socket of node {node.id}", partial(_socket, machine, node), None) for node in nodes}
    found: list[Gpu] = []
    broken: list[tuple[int, str]] = []
    for position, raw in enumerate(answers.get("gpus") or []):
        before = len(tried.failed)
        gpu = tried(f"GPU {position}", partial(_gpu, machine, raw, sockets), None)
        if gpu is not None:
            found.append(gpu)
        else:
            broken.append((position, tried.failed[before]))
    return tuple(sorted(found, key=lambda gpu: gpu.pci_bus_id)), broken


def _gpu(machine: Machine, raw: dict[str, Any], sockets: dict[int, int | None]) -> Gpu:
    address = parse.bus_id(raw["pci_bus_id"])
    node = _device_node(machine, address, sockets)
    major, minor = raw["compute_capability"]
    return Gpu(
        index=int(raw["index"]),
        uuid=str(raw["uuid"]),
        name=str(raw["name"]),
        pci_bus_id=address,
        compute_capability=(int(major), int(minor)),
        memory_bytes=int(raw["memory_total"]),
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
    node = parse.number(machine.text(f"{_PCI}/{address}/numa_node"))
    if node is not None and node >= 0:
        return node
    return next(iter(sockets)) if len(sockets) == 1 else None


def _socket(machine: Machine, node: NumaNode) -> int | None:
    if not node.cpus:
        return None
    path = f"/sys/devices/system/cpu/cpu{min(node.cpus)}/topology/physical_package_id"
    package = parse.number(machine.text(path))
    return package if package is not None and package >= 0 else None


def _link(machine: Machine, raw: dict[str, Any], address: str) -> PcieLink:
    """Widths from sysfs as well: the card's own maximum, where NVML answers for card and slot together."""
    width = parse.number(machine.text(f"{_PCI}/{address}/max_link_width"))
    return PcieLink(
        generation=raw.get("pcie_generation"),
        width=raw.get("pcie_width"),
        max_generation=raw.get("pcie_card_generation") or raw.get("pcie_max_generation"),
        max_width=width if width is not None and 0 < width < 64 else raw.get("pcie_max_width"),
        slot_generation=raw.get("pcie_max_generation"),
    )


def _process(machine: Machine, raw: dict[str, Any]) -> GpuProcess:
    name = raw.get("name") or (machine.text(f"/proc/{raw['pid']}/comm") or "").strip()
    return GpuProcess(pid=raw["pid"], name=name or None, memory_bytes=raw.get("memory"))


def _peer_access(answers: dict[str, Any], gpus: tuple[Gpu, ...]) -> tuple[tuple[str, ...], ...]:
    """NVML's matrix, put into the order of `HostFacts.gpus` (PCI bus order)."""
    matrix = answers.get("peer_access") or []
    place = {raw.get("uuid"): i for i, raw in enumerate(answers.get("gpus") or [])}
    order = [place[gpu.uuid] for gpu in gpus]
    if len(matrix) != len(place) or any(len(row) != len(matrix) for row in matrix):
        return ()
    return tuple(tuple(matrix[row][column] for column in order) for row in order)


def _bridges(machine: Machine, gpus: tuple[Gpu, ...]) -> tuple[PciBridge, ...]:
    addresses = sorted({bridge for gpu in gpus for bridge in gpu.bridges[1:]})
    return tuple(
        PciBridge(address, parse.acs_request_redirect(machine.data(f"{_PCI}/{address}/config") or b""))
        for address in addresses
    )


def _iommu(machine: Machine, gpus: tuple[Gpu, ...]) -> str | None:
    """How the cards reach memory. Their own groups count: another device may well be translated, or not.

    Where no card's group can be read, all groups count if they agree; unknown otherwise.
    """
    cmdline = machine.text("/proc/cmdline")
    if cmdline is None:
        return None
    links = [machine.link(f"{_PCI}/{gpu.pci_bus_id}/iommu_group") for gpu in gpus]
    own = {link.rpartition("/")[2] for link in links if link}
    groups = own or set(machine.names("/sys/kernel/iommu_groups"))
    kinds = {(machine.text(f"/sys/kernel/iommu_groups/{name}/type") or "").strip() for name in sorted(groups)} - {""}
    mode = parse.iommu_mode(tuple(sorted(kinds)), bool(machine.names("/sys/class/iommu")), cmdline)
    if not own and gpus and len({kind.startswith("DMA") for kind in kinds}) > 1:
        return None
    return mode
