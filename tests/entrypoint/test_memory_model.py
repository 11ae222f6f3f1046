"""memory_model: equals the engine's own class, meets what was read from a real machine, refuses what can't fit."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from dsv4_pd.host.read import read_facts
from dsv4_pd.plan import profiles
from dsv4_pd.plan.memory_model import (
    GIB,
    MIB,
    Load,
    Role,
    Shape,
    checkpoint_bytes,
    estimate,
    needed_fraction,
    pool_tokens,
    pool_tokens_2026_04,
    shape_of,
    weight_bytes,
)
from dsv4_pd.plan.memory_plan import misfits
from dsv4_pd.plan.model_files import Model, read_shape
from dsv4_pd.plan.paths import profiles_dir, share_dir
from dsv4_pd.plan.placement import place
from dsv4_pd.plan.plan import complete
from dsv4_pd.settings.schema import Settings

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOSTS = ROOT / "tests" / "hosts"
CONFIG = HERE / "data" / "deepseek-v4-flash" / "config.json"
ENGINE = Path(os.environ.get("TEST_VENVS", ROOT / ".venvs")) / "engine" / "bin" / "python"
CARD = 97887 * MIB
FLASH = shape_of(json.loads(CONFIG.read_text(encoding="utf-8")))
assert FLASH


def load(role: Role, fraction: float, **more: int) -> Load:
    return replace(Load(role, 4, fraction, 64, 8192), **more)  # type: ignore[arg-type]


def test_defaults_are_the_published_shape() -> None:
    assert Shape() == FLASH


def test_other_models_are_not_predicted() -> None:
    assert shape_of({"model_type": "llama"}) is None


def test_weights_of_the_published_checkpoint() -> None:
    """Published sizes: about 158 GB on disk; loaded without the draft layer, the replaced deployment's 146 GiB."""
    assert checkpoint_bytes(Shape()) == pytest.approx(158e9, rel=0.02)
    assert weight_bytes(Shape(), 1) == pytest.approx(146 * GIB, rel=0.01)
    assert weight_bytes(Shape(), 4) == pytest.approx(3.01e9 + 36.8e9 + 4 * 0.1325e9, rel=0.005)


@pytest.mark.parametrize("role,fraction,used_gib", [("prefill", 0.80, 79), ("decode", 0.85, 83)])
def test_used_memory_of_the_replaced_deployment(role: Role, fraction: float, used_gib: int) -> None:
    """About 79 and 83 of 96 on each card. What the model adds to the static share is an estimate."""
    assert estimate(Shape(), load(role, fraction), CARD).used == pytest.approx(used_gib * GIB, rel=0.05)


def test_capacity_of_the_replaced_deployment() -> None:
    """2,581,504 tokens were read there, under its engine's rule; ours has another rule and about 3.5 times as many."""
    card = estimate(Shape(), load("prefill", 0.80), CARD)
    assert pool_tokens_2026_04(Shape(), card.kv) == pytest.approx(2_581_504, rel=0.05)
    assert card.tokens > 3 * 2_581_504


@pytest.mark.engine
def test_pools_are_the_engine_s_own_to_the_token() -> None:
    loads = [
        {"role": role, "max_running": running, "chunk": chunk, "speculative": speculative}
        for role in ("prefill", "decode", "single")
        for running, chunk in ((64, 8192), (16, 4096), (33, 2048))
        for speculative in (False, True)
    ]
    question = json.dumps({"config": str(CONFIG), "budget": 40_000_000_000, "loads": loads})
    script = HERE / "engine" / "pool_sizes.py"
    done = subprocess.run(
        [ENGINE, script], input=question, capture_output=True, text=True, cwd=script.parent, check=True
    )
    answers = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))[6:])
    ours = [pool_tokens(Shape(), Load(tensor_parallel=4, fraction=0.8, **one), 40e9) for one in loads]  # type: ignore[arg-type]
    assert ours == answers


def test_needed_fraction_is_enough_and_not_too_much() -> None:
    for tokens in (131_072, 524_288, 2_000_000):
        fraction = needed_fraction(Shape(), load("decode", 0.5), CARD, tokens)
        assert estimate(Shape(), load("decode", fraction), CARD).tokens >= tokens
        assert estimate(Shape(), load("decode", fraction - 0.02), CARD).tokens < tokens


def problems(host: str, profile: str, **values: object) -> list[str]:
    found = profiles.read_all(profiles_dir())[profile]
    settings = complete(Settings(**values), found, share_dir())  # type: ignore[arg-type]
    placement = place(settings, found, read_facts(HOSTS / host))
    return [str(problem) for problem in misfits(settings, placement, Shape())]


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
            "single",
            {"mode": "single", "prefill_gpus": ("0",), "decode_gpus": ("1",)},
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
    shape = read_shape(Model(tmp_path))
    assert shape and shape.layers == len(shape.ratios) == 21
    assert read_shape(Model(None)) == Shape()
