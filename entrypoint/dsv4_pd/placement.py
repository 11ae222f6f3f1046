"""Which role runs on which GPUs, CPUs and NUMA nodes: `plan(settings, profile, facts) -> Placement`, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dsv4_pd.host.facts import Gpu

RoleName = Literal["prefill", "decode", "single"]


@dataclass(frozen=True, slots=True)
class RolePlacement:
    """One engine server: its GPUs in rank order (none on a CPU profile) and the NUMA node it binds to."""

    role: RoleName
    gpus: tuple[Gpu, ...]
    tensor_parallel: int
    base_gpu_id: int  # position of the first GPU in Placement.visible
    numa_node: int | None  # None: not bound
    cpus: frozenset[int]  # CPUs of that node that the cpuset allows; empty when not bound


@dataclass(frozen=True, slots=True)
class Placement:
    """The whole plan for the machine."""

    profile: str
    mode: Literal["pd", "single"]
    device: Literal["cuda", "cpu"]
    roles: tuple[RolePlacement, ...]
    visible: tuple[Gpu, ...]  # what every child sees, in this order: prefill's GPUs, then decode's
    warnings: tuple[str, ...] = ()
