"""host.numa: what the kernel refuses is found out on `true`, not on a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from dsv4_pd.host import numa
from dsv4_pd.host.numa import Permission
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk.paths import Paths, profiles_dir
from dsv4_pd.plan.placement.place import place
from dsv4_pd.plan.programs.build import programs
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.settings.schema import Settings
from support.machines import read_facts

# A numactl that refuses some policies, as the real one does under Docker's seccomp profile.
FAKE = """#!/bin/sh
for word in "$@"; do
  case "$word" in {refused}) echo "set_mempolicy: Operation not permitted" >&2; exit 1;; esac
done
exit 0
"""


@pytest.mark.parametrize(
    "refused,policy",
    [
        ("--nothing", "membind"),
        ("--membind*", "preferred"),
        ("--membind*|--preferred*", "cpu"),
        ("--cpunodebind*", "none"),
    ],
)
def test_falls_back_step_by_step(tmp_path: Path, refused: str, policy: str) -> None:
    fake = tmp_path / "numactl"
    fake.write_text(FAKE.format(refused=refused), encoding="utf-8")
    fake.chmod(0o755)
    found = numa.probe(0, numactl=str(fake))
    assert found.policy == policy
    assert (found.reason is None) == (policy == "membind")
    assert found.reason is None or "Operation not permitted" in found.reason


def test_without_numactl_nothing_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert numa.probe(0) == Permission("none", "numactl is not installed", installed=False)


def test_tries_the_node_that_it_was_given() -> None:
    seen: list[Sequence[str]] = []
    numa.probe(3, attempt=seen.append, numactl="numactl")
    assert seen == [["numactl", "--cpunodebind=3", "--membind=3", "true"]]


@pytest.mark.parametrize(
    "nodes,memory,policy,words",
    [
        ((0,), (0,), "membind", ("numactl", "--cpunodebind=0", "--membind=0")),
        ((1,), (0,), "membind", ("numactl", "--cpunodebind=1", "--membind=0")),
        ((0, 1), (0, 1), "preferred", ("numactl", "--cpunodebind=0,1")),
        ((2,), (2,), "preferred", ("numactl", "--cpunodebind=2", "--preferred=2")),
        ((2,), (2,), "cpu", ("numactl", "--cpunodebind=2")),
        ((2,), (2,), "none", ()),
        ((), (), "membind", ()),
    ],
)
def test_arguments(nodes: tuple[int, ...], memory: tuple[int, ...], policy: numa.Policy, words: object) -> None:
    assert numa.arguments(nodes, memory, policy) == words


@pytest.mark.parametrize("host,prefill,decode", [
    ("eight-two-sockets", ("--cpunodebind=0", "--membind=0"), ("--cpunodebind=1", "--membind=1")),
    ("eight-nps4", ("--cpunodebind=0,1,2,3", "--membind=0,1,2,3"), ("--cpunodebind=4,5,6,7", "--membind=4,5,6,7")),
    ("memoryless-node", ("--cpunodebind=0", "--membind=0"), ("--cpunodebind=1", "--membind=0")),
])  # fmt: skip
def test_servers_are_bound_to_their_cards_nodes(
    tmp_path: Path, host: str, prefill: tuple[str, ...], decode: tuple[str, ...]
) -> None:
    facts = read_facts(Path(__file__).parents[1] / "hosts" / host)
    profile = profiles.read_all(profiles_dir())["rtx-pro-6000-8x"]
    paths = Paths(run=tmp_path, state=tmp_path, cache=tmp_path, temp=tmp_path)
    around = Surroundings(paths, tmp_path, numa=Permission("membind"))
    found = programs(Settings(), profile, place(Settings(), profile, facts), around)
    assert [program.argv[:3] for program in found[:2]] == [("numactl", *prefill), ("numactl", *decode)]
