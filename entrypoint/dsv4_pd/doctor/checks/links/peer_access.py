"""The cards of one role must reach each other's memory."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    matrix = s.facts.peer_access
    if not matrix:
        return ok("not reported")
    # without a plan every card counts: what the cards can do is worth knowing before one fits
    groups = [(role.name, role.gpus) for role in s.placement.roles] if s.placement else [("this host", s.facts.gpus)]
    place = {gpu.uuid: position for position, gpu in enumerate(s.facts.gpus)}
    bad = [
        (name, a.index, b.index, matrix[place[a.uuid]][place[b.uuid]])
        for name, gpus in groups
        for a in gpus
        for b in gpus
        if {a.uuid, b.uuid} <= place.keys() and matrix[place[a.uuid]][place[b.uuid]] not in ("ok", "-")
    ]
    if not bad:
        return ok("every pair within a role" if s.placement else "every pair")
    role, a, b, reason = bad[0]
    read = f"{len(bad)} pairs without, e.g. {role}'s GPU {a} and {b}: {reason}"
    if s.settings.pcie_allreduce == "on":
        return fail(f"{read}, but DSV4_PCIE_ALLREDUCE=on needs it", "set DSV4_PCIE_ALLREDUCE=auto")
    return warn(
        read,
        "turn the IOMMU's translation and ACS off (see iommu and acs); in a virtual machine pass the "
        "cards through with peer access; NCCL goes through host memory until then",
    )


CHECK = Check(
    name="peer-access",
    place=20,
    symptom='slow decoding; "peer access is not supported"',
    why="Without peer access each all-reduce goes through host memory, and the engine's PCIe all-reduce stays off.",
    source="noonghunna/club-3090#1125 (topo -p2p); local-inference-lab/rtx6kpro hardware/topology.md",
    run=_run,
)
