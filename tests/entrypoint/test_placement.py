"""placement: facts and settings in, roles on GPUs and NUMA nodes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.gpus import memory_fit
from dsv4_pd.errors import HardwareError, SettingsError
from dsv4_pd.host.facts import GpuProcess, HostFacts
from dsv4_pd.plan.disk.paths import profiles_dir
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.placement.place import Placement, choose_profile, place
from dsv4_pd.plan.programs import about
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.settings.layout import parse
from dsv4_pd.settings.load import load
from dsv4_pd.settings.schema import Settings
from support.cards import GB, gpu, two_sockets

SHIPPED = profiles.read_all(profiles_dir())


def planned(facts: HostFacts, profile: str = "rtx-pro-6000-8x", **settings: Any) -> Placement:
    return place(Settings(**settings), SHIPPED[profile], facts)


def groups(placement: Placement) -> list[list[int]]:
    return [[gpu.index for gpu in role.gpus] for role in placement.roles]


@pytest.mark.parametrize(
    "nodes,expected",
    [
        ("00001111", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("01010101", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("11110000", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("0000001111", [[0, 1, 2, 3], [6, 7, 8, 9]]),  # five would do on one socket, four must not straddle
    ],
)
def test_group_stays_on_its_socket(nodes: str, expected: list[list[int]]) -> None:
    assert groups(planned(two_sockets(nodes))) == expected


def test_each_role_binds_to_the_node_of_its_gpus() -> None:
    prefill, decode = planned(two_sockets("01010101")).roles
    assert (prefill.numa_node, decode.numa_node) == (0, 1)
    assert prefill.cpus == frozenset(range(32)) and decode.cpus == frozenset(range(32, 64))
    assert (prefill.base_gpu_id, decode.base_gpu_id) == (0, 4)


def test_cpuset_narrows_the_cpus() -> None:
    facts = replace(two_sockets(), allowed_cpus=frozenset(range(8, 40)))
    prefill, decode = planned(facts).roles
    assert prefill.cpus == frozenset(range(8, 32)) and decode.cpus == frozenset(range(32, 40))


def test_node_outside_the_cpuset_is_not_bound_and_strict_refuses() -> None:
    facts = replace(two_sockets(), allowed_cpus=frozenset(range(32)))
    placement = planned(facts)
    assert placement.roles[1].numa_node is None
    assert [(n.kind, n.subject) for n in placement.notices] == [(NoticeKind.UNBOUND, "decode")]
    with pytest.raises(HardwareError, match="DSV4_NUMA: found strict"):
        planned(facts, numa="strict")


def test_memory_comes_from_the_nearest_node_that_has_any() -> None:
    facts = two_sockets()
    facts = replace(facts, numa_nodes=(facts.numa_nodes[0], replace(facts.numa_nodes[1], memory_bytes=0)))
    decode = planned(facts).roles[1]
    assert decode.numa_nodes == (1,) and decode.memory_nodes == (0,) and decode.numa_node is None


@pytest.mark.parametrize(
    "name",
    [
        "4",
        "GPU-00000004-0000-4000-8000-000000000004",
        "GPU-00000004",
        "00000004",
        "0000:50:00.0",
        "50:00.0",
        "00000000:50:00.0",
    ],
)
def test_gpu_may_be_named_in_each_way(name: str) -> None:
    placement = planned(two_sockets(), prefill_gpus=(name, "5", "6", "7"))
    assert groups(placement) == [[4, 5, 6, 7], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    "settings,error,words",
    [
        ({"prefill_gpus": ("9",)}, SettingsError, "DSV4_PREFILL_GPUS: found '9'"),
        ({"prefill_gpus": ("0", "0")}, SettingsError, "GPU 0 twice"),
        ({"prefill_gpus": ("0", "1"), "decode_gpus": ("1", "2")}, SettingsError, "DSV4_DECODE_GPUS: found GPU 1"),
        ({"prefill_gpus": ("0", "1", "2")}, SettingsError, "found 3 GPUs"),
        ({"prefill_gpus": ("0", "1"), "decode_gpus": ("4",)}, SettingsError, "as many as prefill"),
        ({"decode_gpus": ("MIG-aaaa",)}, SettingsError, "MIG slices"),
        ({"prefill_gpus": ("GPU-0000",)}, SettingsError, "unambiguous"),
        ({"min_vram_gb": 120.0}, HardwareError, "less than 120"),
    ],
)
def test_bad_choice_is_refused_by_name(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        planned(two_sockets(), **settings)


def test_named_card_of_the_wrong_kind_is_refused_by_name() -> None:
    facts = two_sockets()
    facts = replace(facts, gpus=(replace(facts.gpus[0], compute_capability=(9, 0)), *facts.gpus[1:]))
    with pytest.raises(HardwareError, match=r"DSV4_PREFILL_GPUS: found GPU 0 .*9\.0"):
        planned(facts, prefill_gpus=("0", "1", "2", "3"))


def test_open_role_takes_as_many_as_the_named_one() -> None:
    assert groups(planned(two_sockets(), decode_gpus=("0", "1"))) == [[4, 5], [0, 1]] or groups(
        planned(two_sockets(), decode_gpus=("0", "1"))
    ) == [[2, 3], [0, 1]]


def test_cards_in_use_come_last() -> None:
    facts = two_sockets()
    busy = (GpuProcess(4242, "python3", 20 * GB),)
    gpus = (replace(facts.gpus[0], processes=busy), *facts.gpus[1:])
    placement = planned(replace(facts, gpus=gpus), "rtx-pro-6000-4x")
    assert all(0 not in group for group in groups(placement))


def test_no_gpu_says_how_to_get_one_and_how_to_go_on_without() -> None:
    facts = HostFacts((), (), frozenset({0}), gpu_error="NVML: Driver Not Loaded")
    with pytest.raises(HardwareError, match=r"no GPU visible.*Driver Not Loaded.*modprobe nvidia.*demo-cpu"):
        planned(facts)


@pytest.mark.parametrize(
    "count,mode,expected",
    [
        (8, "pd", "rtx-pro-6000-8x"),
        (9, "pd", "rtx-pro-6000-8x"),
        (4, "pd", "rtx-pro-6000-4x"),
        (7, "pd", "rtx-pro-6000-4x"),
        (8, "single", "single"),
        (4, "single", "single"),
        (3, None, "rtx-pro-6000-2x"),
        (2, None, "rtx-pro-6000-2x"),
        (2, "single", "rtx-pro-6000-2x"),
        (1, "single", "single"),
    ],
)
def test_auto_profile(count: int, mode: Any, expected: str) -> None:
    assert choose_profile(load({"DSV4_MODE": mode}), two_sockets("0" * count), SHIPPED) == expected


@pytest.mark.parametrize("text", ["single:2", "single", "auto", ""])
def test_two_cards_serve_with_room_for_the_longest_request(text: str) -> None:
    """One server: a pair would hold the weights twice."""
    found = survey_facts({"DSV4_LAYOUT": text}, two_sockets("01"))
    plan = found.planned()
    assert (plan.profile.name, str(plan.placement.layout)) == ("rtx-pro-6000-2x", "single:2")
    assert min(about.expected_kv_tokens(plan.settings, plan.profile, plan.placement, found.around.shape).values()) > (
        plan.settings.context_length
    )
    assert memory_fit.CHECK.run(found).verdict is CheckVerdict.OK


def test_a_pair_on_two_cards_is_refused_with_what_it_needs() -> None:
    with pytest.raises(HardwareError, match="found 2 fitting GPUs of 2, expected 4"):
        choose_profile(load({"DSV4_MODE": "pd"}), two_sockets("00"), SHIPPED)
    with pytest.raises(HardwareError, match="rtx-pro-6000-2x: found 1 fitting GPU of 1, expected 2"):
        choose_profile(Settings(), two_sockets("0"), SHIPPED)


def test_auto_profile_names_what_does_not_fit() -> None:
    facts = HostFacts((gpu(0, 0, compute_capability=(9, 0), name="NVIDIA H200"),), (), frozenset({0}))
    with pytest.raises(HardwareError, match=r"NVIDIA H200.*compute capability 9\.0, not 12\.0"):
        choose_profile(Settings(), facts, SHIPPED)


def test_single_takes_every_card_on_the_fewest_sockets() -> None:
    assert groups(planned(two_sockets(), "single", layout=parse("single"))) == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert groups(planned(two_sockets("0110"), "single", layout=parse("single"))) == [[0, 1, 2, 3]]
    assert groups(planned(two_sockets("011"), "single", layout=parse("single"))) == [[1, 2]]
    named = planned(two_sockets(), "single", layout=parse("single"), prefill_gpus=("1",), decode_gpus=("5",))
    assert groups(named) == [[1, 5]]


def test_cpu_profile_needs_no_gpu() -> None:
    placement = planned(HostFacts((), (), frozenset({0})), "demo-cpu")
    assert placement.device == "cpu" and [r.role for r in placement.roles] == ["prefill", "decode"]
    assert placement.visible == ()
