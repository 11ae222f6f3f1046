"""memory_model: equals the engine's own class, meets what was read from a real machine, refuses what can't fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.plan.disk.paths import profiles_dir, share_dir
from dsv4_pd.plan.memory.model import (
    ENGINE_WINDOW_RATIO,
    GIB,
    MIB,
    Load,
    estimate,
    needed_fraction,
    pool_tokens,
    window_ratio,
    window_slots,
)
from dsv4_pd.plan.memory.pinned import pinned_tokens
from dsv4_pd.plan.memory.plan import load_of, misfits, too_heavy
from dsv4_pd.plan.model.files import Model, read_config
from dsv4_pd.plan.model.shape import Shape, shape_of, weight_bytes
from dsv4_pd.plan.placement.place import place
from dsv4_pd.plan.plan import complete
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.settings.layout import RoleName, parse
from dsv4_pd.settings.schema import Settings
from support.engine import pool_sizes
from support.machines import read_facts
from support.plans import eight_cards, make, no_gpu

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOSTS = ROOT / "tests" / "hosts"
CONFIG = HERE / "data" / "deepseek-v4-flash" / "config.json"
CARD = 97887 * MIB
FLASH = shape_of(json.loads(CONFIG.read_text(encoding="utf-8")))
assert FLASH


def load(role: RoleName, fraction: float, **more: int) -> Load:
    return replace(Load(role, 4, fraction, 64, 8192), **more)  # type: ignore[arg-type]


def test_defaults_are_the_published_shape() -> None:
    assert Shape() == FLASH


def test_other_models_are_not_predicted() -> None:
    assert shape_of({"model_type": "llama"}) is None


def checkpoint_bytes(s: Shape) -> float:
    """Size of the checkpoint that the shape implies, its draft layer included; wo_a is fp8 on disk."""
    on_disk = (s.layers + 1) * s.o_lora * s.heads * s.head_dim
    return weight_bytes(s, 1, speculative=True) - on_disk


def pool_tokens_2026_04(s: Shape, budget: float) -> int:
    """Tokens under the rule of the first engines that had this model, without speculation.

    They kept both compressors' states for each window of a tenth of the tokens. The only capacity ever read from a
    machine with the product's cards (2,581,504 tokens) was read under this rule: docs/adr/0401-memory-model.md.
    """
    layers = len(s.ratios) + 1  # the draft layer was counted, loaded or not
    slot = s.head_dim - s.rope_dim + 2 * s.rope_dim + 8
    states = 8 / 128 * 4 * (s.head_dim + s.index_dim) * s.count(4) + 128 / 128 * 2 * s.head_dim * s.count(128)
    window = slot * layers + states * 4
    token = s.count(4) * (slot + s.index_dim + 4) / 4 + s.count(128) * slot / 128
    return int(budget / (0.1 * window + token)) // 256 * 256


def test_weights_of_the_published_checkpoint() -> None:
    """Published sizes: about 158 GB on disk; loaded without the draft layer, the replaced deployment's 146 GiB."""
    assert checkpoint_bytes(Shape()) == pytest.approx(158e9, rel=0.02)
    assert weight_bytes(Shape(), 1) == pytest.approx(146 * GIB, rel=0.01)
    assert weight_bytes(Shape(), 4) == pytest.approx(3.01e9 + 36.8e9 + 4 * 0.1325e9, rel=0.005)


@pytest.mark.parametrize("role,fraction,used_gib", [("prefill", 0.80, 79), ("decode", 0.85, 83)])
def test_used_memory_of_the_replaced_deployment(role: RoleName, fraction: float, used_gib: int) -> None:
    """About 79 and 83 of 96 on each card. What the model adds to the static share is an estimate."""
    assert estimate(Shape(), load(role, fraction), CARD).used == pytest.approx(used_gib * GIB, rel=0.05)


def test_capacity_of_the_replaced_deployment() -> None:
    """2,581,504 tokens were read there, under its engine's rule; today's keeps fewer states for each window."""
    card = estimate(Shape(), load("prefill", 0.80), CARD)
    assert pool_tokens_2026_04(Shape(), card.kv) == pytest.approx(2_581_504, rel=0.05)
    assert card.tokens > card.tokens_by_default > 2 * 2_581_504


BUDGETS = (40_000_000_000, 25_000_000_000, 12_000_000_000)


def engine_sizes(folder: Path, role: str, environ: dict[str, str], drop: str = "") -> dict[str, Any]:
    """What the engine's own class makes of the budgets under the command line of a plan, and the plan's own ratio."""
    values = {"DSV4_MODEL": str(CONFIG.parent), "DSV4_CACHE_DIR": str(folder / "c"), **environ}
    found = make(values, eight_cards(4 if environ["DSV4_PROFILE"].endswith("4x") else 8), run=folder)
    answer = pool_sizes(found, role, BUDGETS, drop)
    return answer | {"load": load_of(found.settings, next(r for r in found.placement.roles if r.role == role))}


@pytest.mark.engine
@pytest.mark.parametrize(
    ("role", "environ"),
    [
        ("prefill", {"DSV4_PROFILE": "rtx-pro-6000-8x"}),
        ("decode", {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_SPECULATIVE": "eagle"}),
        ("single", {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_MODE": "single"}),
        ("decode", {"DSV4_PROFILE": "rtx-pro-6000-4x"}),
        ("prefill", {"DSV4_PROFILE": "rtx-pro-6000-4x", "DSV4_SWA_FULL_TOKENS_RATIO": "0.1"}),
    ],
)
def test_pools_are_the_engine_s_own_to_the_token(tmp_path: Path, role: str, environ: dict[str, str]) -> None:
    engine = engine_sizes(tmp_path, role, environ)
    assert engine["class"] == "DSV4PoolConfigurator"
    assert engine["cap"] is None, "the engine sizes the windows by requests now: the ratio rule is no longer its own"
    at_ratio = replace(engine["load"], window_ratio=engine["ratio"])
    assert [pool_tokens(Shape(), at_ratio, budget) for budget in BUDGETS] == [full for full, _ in engine["pools"]]
    assert [full * engine["ratio"] // 256 * 256 for full, _ in engine["pools"]] == [w for _, w in engine["pools"]]


@pytest.mark.engine
def test_without_a_ratio_the_engine_takes_a_tenth(tmp_path: Path) -> None:
    engine = engine_sizes(tmp_path, "prefill", {"DSV4_PROFILE": "rtx-pro-6000-8x"}, drop="swa-full-tokens-ratio")
    assert (engine["ratio"], engine["cap"]) == (ENGINE_WINDOW_RATIO, None)


@pytest.mark.engine
def test_a_pinned_pool_has_the_windows_that_its_requests_need(tmp_path: Path) -> None:
    """The engine refuses to start on a share of what the memory would hold: seen on an H200, 256 slots of 262,144."""
    environ = {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_DECODE_EXTRA_ARGS": "--max-total-tokens 1048576"}
    engine = engine_sizes(tmp_path, "decode", environ)
    tokens, slots = engine["pinned"]
    assert tokens == 1048576 and slots >= window_slots(engine["load"])


def test_a_pinned_pool_is_what_is_expected_and_its_ratio_follows_it() -> None:
    free, pinned = load("prefill", 0.85), load("prefill", 0.85, most_tokens=262_144)
    assert pool_tokens(Shape(), pinned, 40e9) == 262_144 < pool_tokens(Shape(), free, 40e9)
    assert 262_144 * window_ratio(Shape(), pinned, 40e9) >= window_slots(pinned)
    assert window_ratio(Shape(), replace(free, most_tokens=10**9), 40e9) == window_ratio(Shape(), free, 40e9)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", {}),
        ("--max-total-tokens 4096", {"prefill": 4096}),
        ("--max-total-tokens=4096 --max-total-tokens 8192", {"prefill": 8192}),
        ("--max-total 4096", {"prefill": 4096}),  # argparse takes each start that no other flag shares
    ],
)
def test_pinned_tokens_are_read_as_the_engine_reads_them(given: str, expected: dict[str, int]) -> None:
    found = make({"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_PREFILL_EXTRA_ARGS": given}, eight_cards(8))
    assert pinned_tokens(found.settings, found.profile, found.placement) == expected


@pytest.mark.parametrize("role", ["prefill", "decode", "single"])
@pytest.mark.parametrize("running", [1, 16, 64, 256])
def test_the_chosen_ratio_serves_the_requests_and_leaves_the_most_tokens(role: RoleName, running: int) -> None:
    one, budget = load(role, 0.85, max_running=running), 40e9
    ratio = window_ratio(Shape(), one, budget)
    tokens = pool_tokens(Shape(), one, budget)
    assert int(tokens * ratio) // 256 * 256 >= window_slots(one)
    given = replace(one, window_ratio=ratio)
    assert int(pool_tokens(Shape(), given, 0.92 * budget) * ratio) >= 0.99 * window_slots(one), "a smaller card, too"
    if ratio < ENGINE_WINDOW_RATIO:
        assert tokens > pool_tokens(Shape(), replace(one, window_ratio=ENGINE_WINDOW_RATIO), budget)
    assert tokens * ratio <= 1.1 * window_slots(one) + 256, "no more than the margin asks for"


def test_windows_that_do_not_fit_leave_no_tokens() -> None:
    assert window_ratio(Shape(), load("prefill", 0.5), 1e9) == 1.0
    assert pool_tokens(Shape(), load("prefill", 0.5), 0.5e9) == 0


def test_needed_fraction_is_enough_and_not_too_much() -> None:
    for tokens in (131_072, 524_288, 2_000_000):
        fraction = needed_fraction(Shape(), load("decode", 0.5), CARD, tokens)
        assert estimate(Shape(), load("decode", fraction), CARD).tokens >= tokens
        assert estimate(Shape(), load("decode", fraction - 0.02), CARD).tokens < tokens


@pytest.mark.parametrize("layout", [None, "replicas:2x1"])
def test_on_a_cpu_no_card_can_be_too_small(layout: str | None) -> None:
    """Placements without cards: the smallest of none is no number."""
    plan = make({"DSV4_PROFILE": "demo-cpu", **({"DSV4_LAYOUT": layout} if layout else {})}, no_gpu())
    assert too_heavy(plan.settings, plan.placement, 510 * 10**9) is None
    assert misfits(plan.settings, plan.placement, Shape()) == ()


def problems(host: str, profile: str, **values: Any) -> list[str]:
    found = profiles.read_all(profiles_dir())[profile]
    settings = complete(Settings(**values), found, {}, share_dir())
    placement = place(settings, found, read_facts(HOSTS / host))
    pinned = pinned_tokens(settings, found, placement)
    return [str(problem) for problem in misfits(settings, placement, Shape(), pinned)]


@pytest.mark.parametrize(
    "host,profile",
    [
        ("eight-two-sockets", "rtx-pro-6000-8x"),
        ("four-one-socket", "rtx-pro-6000-4x"),
    ],
)
def test_each_profile_fits_with_its_own_defaults(host: str, profile: str) -> None:
    assert problems(host, profile) == []


@pytest.mark.parametrize(
    "host,profile,values,words",
    [
        ("four-one-socket", "rtx-pro-6000-4x", {"prefill_mem_fraction": 0.75}, "DSV4_PREFILL_MEM_FRACTION: found 0.75"),
        ("eight-two-sockets", "rtx-pro-6000-8x", {"decode_mem_fraction": 0.42}, "set DSV4_DECODE_MEM_FRACTION=0.4"),
        ("eight-two-sockets", "rtx-pro-6000-8x", {"prefill_mem_fraction": 0.98}, "GiB too much"),
        ("eight-two-sockets", "rtx-pro-6000-8x", {"context_length": 20_000_000}, "lower DSV4_CONTEXT_LENGTH"),
        (
            "eight-two-sockets",
            "rtx-pro-6000-8x",
            {"swa_full_tokens_ratio": 1e-5},
            "DSV4_SWA_FULL_TOKENS_RATIO: found 1e-05 of ",
        ),
        (
            "eight-two-sockets",
            "rtx-pro-6000-8x",
            {"decode_extra_args": "--max-total-tokens 4096"},
            "--max-total-tokens: found 4096 on decode",
        ),
        (
            "eight-two-sockets",
            "single",
            {"layout": parse("single"), "prefill_gpus": ("0",), "decode_gpus": ("1",)},
            "on single: 73.9 GiB of weights",
        ),
    ],
)
def test_what_cannot_fit_is_refused_by_name(host: str, profile: str, values: dict[str, object], words: str) -> None:
    found = problems(host, profile, **values)
    assert any(words in line for line in found), found


def test_shape_is_read_from_the_model_s_folder(tmp_path: Path) -> None:
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 21}), encoding="utf-8")
    found = read_config(Model(tmp_path))
    shape = shape_of(found) if found else None
    assert shape and shape.layers == len(shape.ratios) == 21
    assert read_config(Model(None)) is None, "nothing is known of it"
    assert shape_of(config) == Shape(), "as the catalogue has it"
