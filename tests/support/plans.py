"""Plans for tests: settings from a dict, hosts made of plain facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dsv4_pd.host.facts import Gpu, HostFacts, NumaNode
from dsv4_pd.host.numa import Permission, Policy
from dsv4_pd.plan.around import surroundings
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk import paths
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.shipped import data as shipped
from dsv4_pd.plan.survey import consider, read_settings
from dsv4_pd.settings.schema import Settings

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
    environ: Mapping[str, str], facts: HostFacts, run: Path = Path("/run/dsv4-pd"), policy: Policy = "none"
) -> Plan:
    """The plan for these variables on that machine."""
    values = {"DSV4_RUN_DIR": str(run), "DSV4_STATE_DIR": str(run / "state"), **environ}
    known = shipped.read()

    def around(settings: Settings) -> Surroundings:
        return replace(surroundings.assume(settings, values, facts, known.models), numa=Permission(policy))

    return consider(read_settings(values, known.profiles), facts, known, around).planned()


ROOT = paths.share_dir()
