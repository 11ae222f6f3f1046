"""Cards and sockets for tests of the placement: plain facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dsv4_pd.host.facts import Gpu, HostFacts, NumaNode

GB = 10**9


def gpu(index: int, node: int | None, **more: object) -> Gpu:
    base = Gpu(
        index=index,
        uuid=f"GPU-{index:08x}-0000-4000-8000-{index:012x}",
        name="NVIDIA RTX PRO 6000 Blackwell",
        pci_bus_id=f"0000:{0x10 * (index + 1):02x}:00.0",
        compute_capability=(12, 0),
        memory_bytes=97887 << 20,
        numa_node=node,
        socket=node,
        bridges=(f"pci0000:{index:02x}", "0000:00:01.1"),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def two_sockets(nodes: str = "00001111", **more: Any) -> HostFacts:
    gpus = tuple(gpu(i, int(n)) for i, n in enumerate(nodes))
    return HostFacts(
        gpus=gpus,
        numa_nodes=(
            NumaNode(0, frozenset(range(32)), 512 * GB, (10, 21)),
            NumaNode(1, frozenset(range(32, 64)), 512 * GB, (21, 10)),
        ),
        allowed_cpus=frozenset(range(64)),
        allowed_nodes=frozenset({0, 1}),
        **more,
    )
