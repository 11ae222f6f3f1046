"""Workload presets: every one fits every profile, and whatever the operator sets wins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest
from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.gpus import memory_fit
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan import show
from dsv4_pd.plan.disk.paths import models_dir, presets_dir, profiles_dir
from dsv4_pd.plan.shipped import catalogue, presets, profiles
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.settings.schema import Settings
from support.engine import resolve, write
from support.plans import eight_cards, make, no_gpu

KNOWN = presets.read_all(presets_dir())
PROFILES = profiles.read_all(profiles_dir())


def situation(cards: int = 8, **values: str) -> Situation:
    return survey_facts({f"DSV4_{name}": value for name, value in values.items()}, eight_cards(cards))


def test_the_setting_offers_the_files_that_are_there() -> None:
    offered = [word for part in get_args(Settings.model_fields["preset"].annotation) for word in get_args(part)]
    assert sorted(offered) == sorted(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_its_values_are_settings_within_their_rules(name: str) -> None:
    for profile in ("rtx-pro-6000-8x", *KNOWN[name].profile):
        assert profile in PROFILES
        values = KNOWN[name].values(profile)
        assert Settings(**values).model_dump(include=set(values)) == values
        assert values["max_concurrent_requests"] <= values["max_running_requests"], "more would fail in decode"


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize(
    ("cards", "layout"), [(8, ""), (4, ""), (8, "single:8"), (8, "replicas:4x2"), (8, "pd:2x2+2x2")]
)
def test_every_preset_fits_every_layout(name: str, cards: int, layout: str) -> None:
    found = situation(cards, PRESET=name, LAYOUT=layout)
    found.planned()
    assert memory_fit.CHECK.run(found).verdict is CheckVerdict.OK
    assert (
        found.settings.chunked_prefill_size
        == KNOWN[name].values(found.profile.name if found.profile else "")["chunked_prefill_size"]
    )


@pytest.mark.parametrize("name", KNOWN)
def test_own_settings_win_one_by_one(name: str) -> None:
    found = situation(PRESET=name, CHUNKED_PREFILL_SIZE="2048", SPECULATIVE="off")
    settings = found.settings
    assert (settings.chunked_prefill_size, settings.speculative) == (2048, "off")
    assert settings.context_length == KNOWN[name].defaults["context_length"]
    decided, own = presets.shares(KNOWN[name], PROFILES["rtx-pro-6000-8x"], found.own)
    assert set(own) == {"chunked_prefill_size", "speculative"} and "context_length" in decided


def test_a_preset_goes_before_the_profile_and_has_its_own_values_for_it() -> None:
    plain, preset = situation(4).settings, situation(4, PRESET="throughput").settings
    assert plain.max_running_requests == 16 and preset.max_running_requests == 48
    assert preset.decode_mem_fraction == 0.88
    assert situation(8, PRESET="throughput").settings.max_running_requests == 256


def test_a_smaller_batch_of_ones_own_bounds_what_is_let_in() -> None:
    assert situation(PRESET="chat", MAX_RUNNING_REQUESTS="10").settings.max_concurrent_requests == 10
    both = situation(PRESET="chat", MAX_RUNNING_REQUESTS="10", MAX_CONCURRENT_REQUESTS="12").settings
    assert both.max_concurrent_requests == 12


@pytest.mark.parametrize(("model", "algorithm"), [("flash-0731", "dspark"), ("flash-preview", "off")])
def test_a_preset_s_draft_is_the_checkpoint_s(model: str, algorithm: str) -> None:
    assert situation(PRESET="chat", MODEL=model).settings.speculative == algorithm


@pytest.mark.engine
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize(
    ("cards", "profile", "role"),
    [(8, "rtx-pro-6000-8x", "decode"), (4, "rtx-pro-6000-4x", "prefill"), (8, "single", "single")],
)
def test_every_preset_resolves_through_the_engine(
    tmp_path: Path, name: str, cards: int, profile: str, role: str
) -> None:
    """The default model with its draft, so that `auto` brings it in: what the preset says reaches the engine."""
    model = tmp_path / "model"
    model.mkdir()
    config = dict(catalogue.read_all(models_dir())["flash-0731"].config)
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    environ = {"DSV4_PRESET": name, "DSV4_PROFILE": profile, "DSV4_MODEL": str(model)}
    plan = make({**environ, "DSV4_CACHE_DIR": str(tmp_path / "c")}, eight_cards(cards), run=tmp_path / "run")
    write(plan)
    got, wanted = resolve(plan, role), KNOWN[name].values(profile)
    assert got["context_length"] == wanted["context_length"] + 256, "a page more: server_context"
    assert got["chunked_prefill_size"] == wanted["chunked_prefill_size"]
    assert got["max_running_requests"] == wanted["max_running_requests"]
    fraction = f"{'prefill' if role == 'prefill' else 'decode'}_mem_fraction"
    assert got["mem_fraction_static"] == wanted.get(fraction, getattr(plan.settings, fraction))
    drafts = wanted.get("speculative", "off") == "auto"
    assert got["speculative_algorithm"] == ("DSPARK" if drafts else None)
    assert got["page_size"] == 256 and got["moe_runner_backend"] == "flashinfer_mxfp4"


def test_the_plan_shows_what_it_decided_and_what_it_leads_to() -> None:
    found = situation(PRESET="long-context", QUEUE_SIZE="3")
    text = show.as_text(found)
    assert "preset: long-context — few requests of up to a million tokens; your own: DSV4_QUEUE_SIZE" in text
    head = text.partition("settings\n")[0]
    assert "  DSV4_CONTEXT_LENGTH = 1048576" in head and "DSV4_QUEUE_SIZE = " not in head
    assert "longest requests at once" in text
    assert "preset:" not in show.as_text(situation())


def test_without_a_gpu_it_is_refused() -> None:
    values: Mapping[str, str] = {"DSV4_PROFILE": "demo-cpu", "DSV4_PRESET": "chat"}
    with pytest.raises(SettingsError, match=r"DSV4_PRESET: found 'chat' with the profile demo-cpu"):
        survey_facts(values, no_gpu()).planned()
