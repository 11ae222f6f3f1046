"""Plans for tests: settings from a dict, hosts made of plain facts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from dsv4_pd.host.facts import Gpu, HostFacts, NumaNode
from dsv4_pd.plan import boot, paths
from dsv4_pd.plan.boot import Plan
from dsv4_pd.plan.programs import NumaPolicy

MEMORY = 97887 * 2**20


def eight_cards(count: int = 8) -> HostFacts:
    """RTX PRO 6000 cards spread over two sockets of 32 CPUs."""
    gpus = tuple(
        Gpu(i, f"GPU-{i:08x}-0000-0000-0000-000000000000", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            f"0000:{i + 1:02x}:00.0", (12, 0), MEMORY, numa_node=i * 2 // count)
        for i in range(count)
    )  # fmt: skip
    nodes = tuple(NumaNode(n, frozenset(range(n * 32, n * 32 + 32)), 512 * 2**30) for n in (0, 1))
    return HostFacts(gpus=gpus, numa_nodes=nodes, allowed_cpus=frozenset(range(64)), driver_version="580.95.05")


def no_gpu() -> HostFacts:
    """A laptop."""
    return HostFacts(gpus=(), numa_nodes=(NumaNode(0, frozenset({0, 1}), 16 * 2**30),),
                     allowed_cpus=frozenset({0, 1}), gpu_error="no NVIDIA device file")  # fmt: skip


def make(
    environ: Mapping[str, str], facts: HostFacts, run: Path = Path("/run/dsv4-pd"), policy: NumaPolicy = "none"
) -> Plan:
    """The plan for these settings on that machine; the test process's own environment plays no part."""
    values = {"DSV4_RUN_DIR": str(run), "DSV4_STATE_DIR": str(run / "state"), **environ}
    with mock.patch.dict(os.environ, values, clear=True):
        return boot.make_plan(facts, policy, dict(os.environ))


ROOT = paths.share_dir()
