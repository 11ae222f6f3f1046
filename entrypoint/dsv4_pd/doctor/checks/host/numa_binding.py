"""Each role should be bound to the NUMA node of its GPUs."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, skip, warn
from dsv4_pd.plan.notices import NUMA_KINDS
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if s.placement is None:
        return skip("there is no plan")
    if s.settings.numa == "off":
        return ok("off by DSV4_NUMA")
    empty = [str(node.id) for node in s.facts.numa_nodes if not node.memory_bytes]
    notices = [notice.text for notice in s.notices if notice.kind in NUMA_KINDS]
    if notices or empty:
        read = "; ".join(notices) or f"node {', '.join(empty)} has no memory"
        return warn(
            read,
            "fill the memory slots of every node, set the firmware's PCIe NUMA options (Preferred I/O, "
            "NPS1, SRAT), and widen --cpuset-cpus and --cpuset-mems",
        )
    bound = [f"{role.name} to node {', '.join(map(str, role.numa_nodes))}" for role in s.placement.roles]
    return ok("; ".join(bound))


CHECK = Check(
    name="numa-binding",
    place=10,
    symptom="start and transfers slower than they should be; differs from boot to boot",
    why="Host memory on the other socket makes every load, copy and kernel launch cross the inter-socket link.",
    source="numactl/numactl#67, #165; sglang PR#26983; local-inference-lab/rtx6kpro hardware/topology.md",
    run=_run,
)
