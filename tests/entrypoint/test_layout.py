"""DSV4_LAYOUT: what it may say, which servers follow, on which cards and ports."""

from __future__ import annotations

import json

import pytest
import yaml
from dsv4_pd.errors import ApplianceError, HardwareError, SettingsError
from dsv4_pd.host.facts import GpuProcess, HostFacts
from dsv4_pd.plan.notices import NoticeKind
from dsv4_pd.plan.placement import gpu_groups
from dsv4_pd.plan.plan import Plan
from dsv4_pd.settings.layout import EXPECTED, PAIR, SINGLE, parse, read
from dsv4_pd.settings.load import load
from support.cards import gpu, two_sockets
from support.plans import eight_cards, make, no_gpu


@pytest.mark.parametrize(
    ("text", "spelled", "members"),
    [
        ("pd:4+4", "pd:4+4", ["prefill", "decode"]),
        ("pd:1x4+1x4", "pd:4+4", ["prefill", "decode"]),
        ("PD:2x2+2x2 ", "pd:2x2+2x2", ["prefill-1", "prefill-2", "decode-1", "decode-2"]),
        ("pd:2x1+1", "pd:2x1+1", ["prefill-1", "prefill-2", "decode"]),
        ("pd:2+3x2", "pd:2+3x2", ["prefill", "decode-1", "decode-2", "decode-3"]),
        ("replicas:4x2", "replicas:4x2", ["single-1", "single-2", "single-3", "single-4"]),
        ("replicas:8", "single:8", ["single"]),
        ("single:8", "single:8", ["single"]),
        ("pd", "pd", ["prefill", "decode"]),
        ("single", "single", ["single"]),
    ],
)
def test_what_a_layout_says(text: str, spelled: str, members: list[str]) -> None:
    layout = parse(text)
    assert str(layout) == spelled
    assert [f"{role}-{index}" if index else role for role, index in layout.members] == members
    assert parse(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pd:4", "auto, pd, single, pd:"),
        ("pd:4+4+4", "auto, pd, single, pd:"),
        ("pd:", "auto, pd, single, pd:"),
        ("pd:4+", "auto, pd, single, pd:"),
        ("pd:-4+4", "auto, pd, single, pd:"),
        ("pd:4x+4", "auto, pd, single, pd:"),
        ("pd:٤+٤", "auto, pd, single, pd:"),  # digits of another script
        ("replicas", "auto, pd, single, pd:"),
        ("replicas:2x1+1", "auto, pd, single, pd:"),
        ("both:4+4", "auto, pd, single, pd:"),
        ("", "auto, pd, single, pd:"),
        ("pd:2+4", "as many GPUs for each decode as for each prefill, not 2 and 4"),
        ("pd:3+3", "1, 2, 4 or 8 GPUs a server, not 3"),
        ("single:16", "1, 2, 4 or 8 GPUs a server, not 16"),
        ("replicas:0x2", "1 to 9 servers of a role, not 0"),
        ("replicas:10x1", "1 to 9 servers of a role, not 10"),
        ("single:2x4", "2 of them are replicas:2x4"),
    ],
)
def test_what_a_layout_may_not_say(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    assert words in str(caught.value)


def test_what_is_expected_names_every_word_that_is_taken() -> None:
    words = EXPECTED.partition(", where")[0].replace(" or ", ", ").split(", ")
    given = [word.replace("PREFILL+DECODE", "4+4").replace("GROUP", "2x4").replace("TP", "8") for word in words]
    assert [read(word) is None or str(parse(word)) for word in given] == [
        True, "pd", "single", "pd:4+4", "replicas:2x4", "single:8",
    ]  # fmt: skip


def found(environ: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(environ)
    return [
        f"{problem.subject}: {problem.found}; {problem.expected}; {problem.remedy}" for problem in caught.value.problems
    ]


def test_a_layout_is_a_setting_like_the_others() -> None:
    assert load({"DSV4_LAYOUT": " 'Replicas:4x2' "}).layout == parse("replicas:4x2")
    assert load({"DSV4_LAYOUT": "auto"}).layout is None and load({"DSV4_LAYOUT": ""}).layout is None
    assert "DSV4_LAYOUT: 'pd:2+4'; as many GPUs" in found({"DSV4_LAYOUT": "pd:2+4"})[0]


@pytest.mark.parametrize(
    ("mode", "layout"), [("pd", "single:8"), ("single", "pd:4+4"), ("single", "replicas:4x2"), ("pd", "replicas:2x4")]
)
def test_the_old_mode_beside_another_layout_is_refused(mode: str, layout: str) -> None:
    assert (
        f"DSV4_MODE: {mode}, and DSV4_LAYOUT={layout}; one of the two; unset DSV4_MODE"
        in found({"DSV4_MODE": mode, "DSV4_LAYOUT": layout})[0]
    )


def test_the_old_mode_beside_the_same_layout_is_taken() -> None:
    assert load({"DSV4_MODE": "pd", "DSV4_LAYOUT": "pd:2x2+2x2"}).layout == parse("pd:2x2+2x2")
    assert load({"DSV4_MODE": "single", "DSV4_LAYOUT": "auto"}).layout == parse("single")
    assert load({"DSV4_MODE": "single", "DSV4_LAYOUT": "replicas:8"}).layout == parse("single:8")


def by_name(plan: Plan) -> dict[str, dict[str, object]]:
    return {
        program.name: yaml.safe_load(program.files[0].text)
        for program in plan.programs
        if program.name not in ("router", "front", "guard")
    }


def same_without_fingerprints(one: Plan, other: Plan) -> bool:
    drop = ("settings_hash",)

    def text(plan: Plan) -> list[str]:
        lines = [line for file in plan.files for line in file.text.splitlines()]
        return [line for line in lines if not any(word in line for word in drop)]

    return one.programs == other.programs and text(one) == text(other)


@pytest.mark.parametrize(
    ("mode", "layout"), [("pd", "pd"), ("pd", "pd:4+4"), ("single", "single:8"), ("single", "single")]
)
def test_the_old_mode_and_its_layout_are_one_plan(mode: str, layout: str) -> None:
    old, new = make({"DSV4_MODE": mode}, eight_cards()), make({"DSV4_LAYOUT": layout}, eight_cards())
    assert same_without_fingerprints(old, new)
    notices = [notice for notice in old.placement.notices if notice.kind is NoticeKind.DEPRECATED]
    assert [notice.text for notice in notices] == [
        f"DSV4_MODE is deprecated and will be removed in 0.3.0: use DSV4_LAYOUT={mode}"
    ]
    assert not [notice for notice in new.placement.notices if notice.kind is NoticeKind.DEPRECATED]


def test_replicas_on_eight_cards() -> None:
    plan = make({"DSV4_LAYOUT": "replicas:4x2"}, eight_cards(), policy="membind")
    assert plan.profile.name == "rtx-pro-6000-4x"  # its defaults are those of two cards a server
    assert [[gpu.index for gpu in role.gpus] for role in plan.placement.roles] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [role.numa_node for role in plan.placement.roles] == [0, 0, 1, 1]
    flags = by_name(plan)
    assert [flag["base-gpu-id"] for flag in flags.values()] == [0, 2, 4, 6]
    assert [flag["port"] for flag in flags.values()] == [30000, 30010, 30020, 30030]
    assert [flag["nccl-port"] for flag in flags.values()] == [30335, 30345, 30355, 30365]
    assert all(flag["tp-size"] == 2 and "disaggregation-mode" not in flag for flag in flags.values())
    router = next(program for program in plan.programs if program.name == "router").argv
    at = router.index("--worker-urls")
    assert router[at + 1 : at + 5] == tuple(f"http://127.0.0.1:300{n}0" for n in range(4))


def test_two_pairs_on_eight_cards() -> None:
    plan = make({"DSV4_LAYOUT": "pd:2x2+2x2"}, eight_cards())
    flags = by_name(plan)
    assert list(flags) == ["prefill-1", "prefill-2", "decode-1", "decode-2"]
    assert [flag["port"] for flag in flags.values()] == [30000, 30010, 30001, 30011]
    assert [flag["disaggregation-bootstrap-port"] for flag in flags.values()] == [8998, 9008, 8998, 8998]
    assert [flag["disaggregation-mode"] for flag in flags.values()] == ["prefill", "prefill", "decode", "decode"]
    router = " ".join(next(program for program in plan.programs if program.name == "router").argv)
    assert (
        "--prefill http://127.0.0.1:30000 8998 --prefill http://127.0.0.1:30010 9008 "
        "--decode http://127.0.0.1:30001 --decode http://127.0.0.1:30011" in router
    )
    guard = json.loads(next(file.text for file in plan.files if file.path.name == "guard.json"))
    assert [(one["name"], one["role"], one["bootstrap_port"]) for one in guard["servers"]] == [
        ("prefill-1", "prefill", 8998), ("prefill-2", "prefill", 9008), ("decode-1", "decode", None),
        ("decode-2", "decode", None),
    ]  # fmt: skip


def test_members_share_no_card_file_or_log() -> None:
    plan = make({"DSV4_LAYOUT": "pd:2x2+2x2", "DSV4_API_KEY": "k"}, eight_cards())
    gpus = [uuid for program in plan.programs for uuid in program.gpus]
    assert len(gpus) == len(set(gpus)) == 8
    paths = [file.path for file in plan.files]
    assert len(paths) == len(set(paths))
    logs = [program.log_path for program in plan.programs]
    assert len(logs) == len(set(logs))


def test_named_cards_are_divided_in_their_order() -> None:
    environ = {"DSV4_LAYOUT": "pd:2x1+2x1", "DSV4_PREFILL_GPUS": "7,0", "DSV4_DECODE_GPUS": "3,4"}
    assert indices(make(environ, eight_cards())) == [[7], [0], [3], [4]]
    environ = {"DSV4_LAYOUT": "replicas:2x2", "DSV4_PREFILL_GPUS": "6,7", "DSV4_DECODE_GPUS": "0,1"}
    assert indices(make(environ, eight_cards())) == [[6, 7], [0, 1]]
    environ = {"DSV4_LAYOUT": "pd:2x1+2x1", "DSV4_PREFILL_GPUS": "6,7"}
    assert indices(make(environ, eight_cards()))[:2] == [[6], [7]]


def indices(plan: Plan) -> list[list[int]]:
    return [[card.index for card in role.gpus] for role in plan.placement.roles]


@pytest.mark.parametrize(
    ("environ", "facts", "words"),
    [
        ({"DSV4_LAYOUT": "pd:2x2+2x2", "DSV4_PREFILL_GPUS": "0,1"}, eight_cards(), "4 for DSV4_LAYOUT=pd:2x2+2x2"),
        ({"DSV4_LAYOUT": "replicas:2x2", "DSV4_DECODE_GPUS": "0"}, eight_cards(), "4 for DSV4_LAYOUT=replicas:2x2"),
        ({"DSV4_LAYOUT": "replicas:5x2"}, eight_cards(), "10 of compute capability 12.0"),
        ({"DSV4_LAYOUT": "pd:4+4"}, eight_cards(4), "8 of compute capability 12.0"),
        ({"DSV4_LAYOUT": "replicas:2x2", "DSV4_PROFILE": "demo-cpu"}, no_gpu(), "set DSV4_LAYOUT=replicas:2x1"),
        ({"DSV4_LAYOUT": "pd:2+2", "DSV4_PROFILE": "demo-cpu"}, no_gpu(), "set DSV4_LAYOUT=pd:1+1"),
        ({"DSV4_LAYOUT": "pd", "DSV4_PROFILE": "single"}, eight_cards(), "no size for prefill"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(environ: dict[str, str], facts: HostFacts, words: str) -> None:
    with pytest.raises(ApplianceError) as caught:
        make(environ, facts)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"DSV4_DECODE_PORT": "30010"}, "30010 for decode, which prefill-2 (DSV4_PREFILL_PORT) has as well"),
        ({"DSV4_PORT": "9008"}, "9008 for front, which prefill-2 (DSV4_BOOTSTRAP_PORT) has as well"),
        ({"DSV4_PREFILL_PORT": "65530"}, "65540 for prefill-2"),
        ({"DSV4_PREFILL_NCCL_PORT": "29991"}, "30001 for decode, which prefill-2 (DSV4_PREFILL_NCCL_PORT) has as well"),
    ],
)
def test_ports_of_further_members_that_somebody_has(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make({"DSV4_PROFILE": "demo-cpu", "DSV4_LAYOUT": "pd:2x1+1", **environ}, no_gpu())
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("layout", "profile"),
    [
        ("pd:4+4", "rtx-pro-6000-8x"),
        ("replicas:2x4", "rtx-pro-6000-8x"),
        ("pd:2x2+2x2", "rtx-pro-6000-4x"),
        ("replicas:8x1", "rtx-pro-6000-4x"),
        ("single:8", "single"),
        ("single:4", "single"),
    ],
)
def test_the_profile_follows_the_size_of_a_server(layout: str, profile: str) -> None:
    assert make({"DSV4_LAYOUT": layout}, eight_cards()).profile.name == profile


def test_the_layout_wins_over_the_profiles_own() -> None:
    assert indices(make({"DSV4_LAYOUT": "single:2", "DSV4_PROFILE": "rtx-pro-6000-8x"}, eight_cards())) == [[0, 1]]
    assert len(indices(make({"DSV4_LAYOUT": "replicas:2x4", "DSV4_PROFILE": "single"}, eight_cards()))) == 2


def test_no_group_crosses_a_socket_that_need_not() -> None:
    """Interleaved cards: the first in bus order are on different sockets."""
    facts = two_sockets("01010101")
    chosen = gpu_groups.choose_groups(facts.gpus, [2, 2, 2, 2])
    assert all(len({card.socket for card in group}) == 1 for group in chosen)
    assert sorted(card.index for group in chosen for card in group) == list(range(8))


def test_a_card_in_use_is_taken_last() -> None:
    cards = [gpu(i, 0) for i in range(6)]
    cards[1] = gpu(1, 0, processes=(GpuProcess(7, "x", 1 << 30),))
    chosen = gpu_groups.choose_groups(cards, [1, 1, 1])
    assert [card.index for group in chosen for card in group] == [0, 2, 3]


def test_sixteen_cards_are_grouped_at_once() -> None:
    cards = [gpu(i, i // 8) for i in range(16)]
    chosen = gpu_groups.choose_groups(cards, [2] * 8)
    assert [[card.index for card in group] for group in chosen] == [[i, i + 1] for i in range(0, 16, 2)]


def test_too_few_cards_name_the_layout() -> None:
    with pytest.raises(HardwareError) as caught:
        make({"DSV4_LAYOUT": "replicas:4x4"}, eight_cards())
    assert "choose a smaller DSV4_LAYOUT" in str(caught.value)


def test_bare_kinds_are_the_profiles_sizes() -> None:
    assert (parse("pd"), parse("single")) == (PAIR, SINGLE)
    assert indices(make({"DSV4_LAYOUT": "pd"}, eight_cards(4))) == [[0, 1], [2, 3]]
    assert indices(make({"DSV4_LAYOUT": "single"}, eight_cards())) == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_a_wrong_name_of_a_card_is_a_wrong_setting_whatever_the_layout() -> None:
    """Before any card is counted: too few of them would be told as missing hardware."""
    with pytest.raises(SettingsError, match=r"DSV4_PREFILL_GPUS: found '9'"):
        make({"DSV4_LAYOUT": "pd:4+4", "DSV4_PREFILL_GPUS": "0,1,2,9"}, eight_cards(4))
    with pytest.raises(SettingsError, match=r"DSV4_PREFILL_GPUS: found 2 GPUs, expected 4 for DSV4_LAYOUT=pd:4\+4"):
        make({"DSV4_LAYOUT": "pd:4+4", "DSV4_PREFILL_GPUS": "0,1"}, eight_cards(4))


@pytest.mark.parametrize("text", ["pd:4+4", "pd:2x2+2x2", "pd:2+3x2", "replicas:4x2", "single:8"])
def test_what_was_placed_is_told_as_a_layout(text: str) -> None:
    plan = make({"DSV4_LAYOUT": text}, eight_cards())
    assert str(plan.placement.layout) == plan.about["layout"] == text


def test_on_a_cpu_too() -> None:
    assert make({"DSV4_PROFILE": "demo-cpu"}, no_gpu()).about["layout"] == "pd:1+1"
