"""Reads the machine once: `facts_of(machine) -> HostFacts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dsv4_pd.host import cards, parse
from dsv4_pd.host.cards import PCI
from dsv4_pd.host.facts import Gpu, HostFacts, NumaNode, PciBridge, ResourceLimits, Software
from dsv4_pd.host.machine import Machine
from dsv4_pd.host.system import clock_skew, read_limits, read_software, read_units
from dsv4_pd.host.tried import Tried
from dsv4_pd.host.typed import text, whole

_NODES = "/sys/devices/system/node"
_NVML_UNKNOWN = 999


def probe_node(facts: HostFacts) -> int:
    """The NUMA node on which a memory policy is tried: the cpuset may exclude others."""
    return min(facts.allowed_nodes or {0})


def facts_of(machine: Machine) -> HostFacts:
    """The facts of a machine, live or replayed. What can't be read is unknown, named in `unread`, and hides nothing."""
    tried = Tried()
    nodes = tried("NUMA nodes", lambda: _numa_nodes(machine), ())
    answers = tried("NVML", lambda: _answers(machine), {"error": "NVML's answers can't be read", "gpus": []})
    gpus, broken = cards.read(machine, answers, nodes, tried)
    words = text(answers.get("error")) or (None if gpus else "the driver lists no GPU")
    facts = HostFacts(
        gpus=gpus,
        numa_nodes=nodes,
        allowed_cpus=tried("allowed CPUs", lambda: _allowed_cpus(machine, nodes), frozenset()),
        driver_version=text(answers.get("driver_version")),
        gpu_error=words,
        gpu_error_code=whole(answers.get("error_code")),
        devices_revoked=_revoked(answers),
        lost_gpus=(*tried("lost GPUs", lambda: cards.lost(answers), ()), *broken),
        allowed_nodes=tried("allowed nodes", lambda: _status(machine, "Mems_allowed_list"), None),
        unlisted_gpus=tried("cards on the PCI bus", lambda: cards.unlisted(machine, gpus), ()),
        cuda_version=tried("CUDA version", lambda: _cuda(answers), None),
        peer_access=tried("peer access", lambda: cards.peer_access(answers, gpus), ()),
        bridges=tried("PCI bridges", lambda: _bridges(machine, gpus), ()),
        iommu=tried("IOMMU", lambda: _iommu(machine, gpus), None),
        limits=tried("limits", lambda: read_limits(machine), ResourceLimits()),
        software=tried("software", lambda: read_software(machine), Software()),
        units=tried("systemd units", lambda: read_units(machine), ()),
        clock_skew_s=tried("clock", lambda: clock_skew(machine), None),
        **tried("memory and processor", lambda: _box(machine), {}),
    )
    return replace(facts, unread=tuple(tried.failed))


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


def _cuda(answers: Mapping[str, Any]) -> tuple[int, int] | None:
    version = whole(answers.get("cuda_version"))
    return None if version is None else (version // 1000, version % 1000 // 10)


def _revoked(answers: Mapping[str, Any]) -> bool:
    """NVML_ERROR_UNKNOWN; captures of older versions hold only NVML's words for it."""
    code = whole(answers.get("error_code"))
    return code == _NVML_UNKNOWN if code is not None else "Unknown Error" in (text(answers.get("error")) or "")


def _answers(machine: Machine) -> Mapping[str, Any]:
    found: Any = machine.nvml()
    if not isinstance(found, Mapping):
        raise TypeError(f"a {type(found).__name__}, not an object")
    return found


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


def _bridges(machine: Machine, gpus: tuple[Gpu, ...]) -> tuple[PciBridge, ...]:
    addresses = sorted({bridge for gpu in gpus for bridge in gpu.bridges[1:]})
    return tuple(
        PciBridge(address, parse.acs_request_redirect(machine.data(f"{PCI}/{address}/config") or b""))
        for address in addresses
    )


def _iommu(machine: Machine, gpus: tuple[Gpu, ...]) -> str | None:
    """How the cards reach memory. Their own groups count: another device may well be translated, or not.

    Where no card's group can be read, all groups count if they agree; unknown otherwise.
    """
    cmdline = machine.text("/proc/cmdline")
    if cmdline is None:
        return None
    links = [machine.link(f"{PCI}/{gpu.pci_bus_id}/iommu_group") for gpu in gpus]
    own = {link.rpartition("/")[2] for link in links if link}
    groups = own or set(machine.names("/sys/kernel/iommu_groups"))
    kinds = {(machine.text(f"/sys/kernel/iommu_groups/{name}/type") or "").strip() for name in sorted(groups)} - {""}
    mode = parse.iommu_mode(tuple(sorted(kinds)), bool(machine.names("/sys/class/iommu")), cmdline)
    if not own and gpus and len({kind.startswith("DMA") for kind in kinds}) > 1:
        return None
    return mode
