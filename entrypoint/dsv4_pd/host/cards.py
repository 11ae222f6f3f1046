"""The cards: NVML's answers joined with what sysfs says of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dsv4_pd.host import parse
from dsv4_pd.host.facts import Gpu, GpuProcess, LostGpu, NumaNode, PcieLink, UnlistedGpu
from dsv4_pd.host.machine import Machine
from dsv4_pd.host.tried import Tried
from dsv4_pd.host.typed import flag, needed, rows, text, whole

PCI = "/sys/bus/pci/devices"


def read(
    machine: Machine, answers: Mapping[str, Any], nodes: tuple[NumaNode, ...], tried: Tried
) -> tuple[tuple[Gpu, ...], list[LostGpu]]:
    """(cards in PCI bus order, those whose answers make no card: the driver's index and why)."""
    sockets = {node.id: tried(f"socket of node {node.id}", partial(_socket, machine, node), None) for node in nodes}
    found: list[Gpu] = []
    broken: list[LostGpu] = []
    cards = answers.get("gpus")
    for position, raw in enumerate(cards if isinstance(cards, list) else []):
        before = len(tried.failed)
        index = whole(raw.get("index")) if isinstance(raw, Mapping) else None
        index = position if index is None else index
        gpu = tried(f"GPU {index}", partial(_gpu, machine, raw, sockets), None)
        if gpu is not None:
            found.append(gpu)
        else:
            broken.append(LostGpu(index, tried.failed[before]))
    return tuple(sorted(found, key=lambda gpu: gpu.pci_bus_id)), broken


def _gpu(machine: Machine, raw: Mapping[str, Any], sockets: dict[int, int | None]) -> Gpu:
    """A card. What it can't do without must be there; any other value of a strange kind is unknown.

    Raises:
        ValueError, TypeError: these answers make no card.
    """
    address = parse.bus_id(needed(text(raw.get("pci_bus_id")), "PCI address"))
    node = _device_node(machine, address, sockets)
    major, minor = (needed(whole(part), "compute capability") for part in raw["compute_capability"])
    return Gpu(
        index=needed(whole(raw.get("index")), "index"),
        uuid=needed(text(raw.get("uuid")), "UUID"),
        name=text(raw.get("name")) or "a GPU without a name",
        pci_bus_id=address,
        compute_capability=(major, minor),
        memory_bytes=needed(whole(raw.get("memory_total")), "size of its memory"),
        numa_node=node,
        socket=None if node is None else sockets.get(node),
        bridges=parse.bridges(machine.link(f"{PCI}/{address}") or ""),
        link=_link(machine, raw, address),
        memory_used_bytes=whole(raw.get("memory_used")),
        mig=flag(raw.get("mig")),
        ecc=flag(raw.get("ecc")),
        persistence=flag(raw.get("persistence")),
        display=flag(raw.get("display")),
        nvlinks=whole(raw.get("nvlinks")),
        processes=tuple(_process(machine, item) for item in rows(raw.get("processes")) if whole(item.get("pid"))),
    )


def _device_node(machine: Machine, address: str, sockets: dict[int, int | None]) -> int | None:
    """The node of a PCI device. On a machine with one node, -1 can only mean that one."""
    node = parse.number(machine.text(f"{PCI}/{address}/numa_node"))
    if node is not None and node >= 0:
        return node
    return next(iter(sockets)) if len(sockets) == 1 else None


def _socket(machine: Machine, node: NumaNode) -> int | None:
    if not node.cpus:
        return None
    path = f"/sys/devices/system/cpu/cpu{min(node.cpus)}/topology/physical_package_id"
    package = parse.number(machine.text(path))
    return package if package is not None and package >= 0 else None


def _link(machine: Machine, raw: Mapping[str, Any], address: str) -> PcieLink:
    """Widths from sysfs as well: the card's own maximum, where NVML answers for card and slot together."""
    width = parse.number(machine.text(f"{PCI}/{address}/max_link_width"))
    slot = whole(raw.get("pcie_max_generation"))
    return PcieLink(
        generation=whole(raw.get("pcie_generation")),
        width=whole(raw.get("pcie_width")),
        max_generation=whole(raw.get("pcie_card_generation")) or slot,
        max_width=width if width is not None and 0 < width < 64 else whole(raw.get("pcie_max_width")),
        slot_generation=slot,
    )


def _process(machine: Machine, raw: Mapping[str, Any]) -> GpuProcess:
    name = text(raw.get("name")) or (machine.text(f"/proc/{raw['pid']}/comm") or "").strip()
    return GpuProcess(pid=raw["pid"], name=name or None, memory_bytes=whole(raw.get("memory")))


def peer_access(answers: Mapping[str, Any], gpus: tuple[Gpu, ...]) -> tuple[tuple[str, ...], ...]:
    """NVML's matrix, put into the order of `HostFacts.gpus` (PCI bus order)."""
    matrix = answers.get("peer_access") or []
    place = {raw.get("uuid"): i for i, raw in enumerate(answers.get("gpus") or [])}
    order = [place[gpu.uuid] for gpu in gpus]
    if len(matrix) != len(place) or any(len(row) != len(matrix) for row in matrix):
        return ()
    return tuple(tuple(str(matrix[row][column]) for column in order) for row in order)


def lost(answers: Mapping[str, Any]) -> tuple[LostGpu, ...]:
    return tuple(
        LostGpu(index, text(card.get("error")) or "no words of NVML's", whole(card.get("error_code")))
        for card in rows(answers.get("lost"))
        if (index := whole(card.get("index"))) is not None
    )


def unlisted(machine: Machine, gpus: tuple[Gpu, ...]) -> tuple[UnlistedGpu, ...]:
    """NVIDIA's display and 3D controllers on the bus that NVML lists no card for. A container sees the whole bus."""
    listed = {gpu.pci_bus_id for gpu in gpus}
    cards = [address for address in machine.names(PCI) if address not in listed and _is_card(machine, address)]
    drivers = [machine.link(f"{PCI}/{address}/driver") for address in cards]
    return tuple(
        UnlistedGpu(address, link.rpartition("/")[2] if link else None)
        for address, link in zip(cards, drivers, strict=True)
    )


def _is_card(machine: Machine, address: str) -> bool:
    kind = machine.text(f"{PCI}/{address}/class") or ""  # few devices have it, so most are asked only once
    return kind.startswith("0x03") and (machine.text(f"{PCI}/{address}/vendor") or "").strip() == "0x10de"
