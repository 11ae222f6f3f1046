"""The catalogue: every entry is known well enough, resolves through the engine, and is refused where it can't work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.doctor.checks import memory_fit
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan import catalogue, checkpoint
from dsv4_pd.plan.catalogue import Entry
from dsv4_pd.plan.memory_model import Shape, pool_tokens, shape_of, weight_bytes
from dsv4_pd.plan.memory_plan import load_of
from dsv4_pd.plan.paths import models_dir
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.speculative import decide
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.settings.schema import Settings
from support.engine import pool_sizes, resolve, write
from support.plans import eight_cards, make

KNOWN = catalogue.read_all(models_dir())
SERVED = {name: entry for name, entry in KNOWN.items() if not entry.refused}
BUDGETS = (40_000_000_000, 25_000_000_000, 12_000_000_000)
BACKENDS = {"mxfp4": "flashinfer_mxfp4", "nvfp4": "flashinfer_cutlass"}


@pytest.mark.parametrize("entry", KNOWN.values(), ids=KNOWN)
def test_what_is_not_known_is_named_and_the_rest_has_a_source(entry: Entry) -> None:
    blank = [key for key in ("revision", "shards", "weights_bytes", "license", "gated", "context", "experts")
             if getattr(entry, key) is None]  # fmt: skip
    assert all(any(key in text for text in entry.unknown) for key in blank), blank
    assert entry.sources and re.fullmatch(r"[\w.-]+/[\w.-]+", entry.hub)
    assert entry.revision is None or re.fullmatch(r"[0-9a-f]{40}", entry.revision)


def test_no_two_entries_are_the_same_model() -> None:
    assert len({entry.hub for entry in KNOWN.values()}) == len(KNOWN)
    assert Settings.model_fields["model"].default in SERVED


@pytest.mark.parametrize("entry", SERVED.values(), ids=SERVED)
def test_the_config_says_what_the_entry_says(entry: Entry) -> None:
    assert checkpoint.has_nvfp4_experts(entry.config) is (entry.experts == "nvfp4")
    assert checkpoint.drafts(entry.config) == (entry.draft,)


def shape(entry: Entry) -> Shape:
    found = shape_of(entry.config)
    assert found
    return found


@pytest.mark.parametrize("entry", SERVED.values(), ids=SERVED)
def test_the_memory_model_meets_the_published_bytes(entry: Entry) -> None:
    """Its weights, draft included, are the files' bytes; wo_a is fp8 on the disk and bf16 on the card."""
    s = shape(entry)
    on_disk = (s.layers + s.stages) * s.o_lora * s.heads * s.head_dim
    assert weight_bytes(s, 1, speculative=True) - on_disk == pytest.approx(entry.weights_bytes, rel=0.015)


def named(**settings: Any) -> Settings:
    return catalogue.resolve(Settings(**settings), KNOWN)


def test_a_name_becomes_the_hub_s_with_its_pinned_revision(tmp_path: Path) -> None:
    flash = KNOWN["flash-0731"]
    for model in ("flash-0731", flash.hub):
        found = named(model=model)
        assert (found.model, found.model_revision) == (flash.hub, flash.revision)
    assert named().model == flash.hub, "the default"
    assert named(model="flash-0731", model_revision="main").model_revision == "main", "the operator's own word"
    assert named(model=str(tmp_path)).model == str(tmp_path)
    other = named(model="someone/finetune")
    assert (other.model, other.model_revision) == ("someone/finetune", None)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("flash-731", "did you mean flash-0731?"),
        ("mixtral", "a name OWNER/MODEL, or a folder"),
        ("v4.1-flash", "leave no room on eight cards"),
        ("deepseek-ai/DeepSeek-V4.1-Flash", "leave no room on eight cards"),
    ],
)
def test_what_is_not_served_is_refused_by_name(model: str, words: str) -> None:
    with pytest.raises(SettingsError, match="DSV4_MODEL") as refused:
        named(model=model)
    assert words in str(refused.value)


MXFP4, DSPARK = KNOWN["flash-preview"].config, KNOWN["flash-0731"].config
NVFP4 = KNOWN["flash-0731-nvfp4"].config
DENSE = {"model_type": "qwen2"}
DECISIONS = {
    ("auto", "dspark"): (DSPARK, "cuda", "dspark"),
    ("auto", "eagle"): (MXFP4, "cuda", "off"),
    ("auto", "nvfp4"): (NVFP4, "cuda", "off"),
    ("auto", "unknown"): (None, "cuda", "off"),
    ("auto", "cpu"): (DENSE, "cpu", "off"),
    ("off", "dspark"): (DSPARK, "cuda", "off"),
    ("dspark", "dspark"): (DSPARK, "cuda", "dspark"),
    ("dspark", "nvfp4"): (NVFP4, "cuda", "dspark"),
    ("dspark", "unknown"): (None, "cuda", "dspark"),
    ("eagle", "eagle"): (MXFP4, "cuda", "eagle"),
    ("dspark", "no block"): (MXFP4, "cuda", "checkpoint with a block for eagle"),
    ("dspark", "another model"): (DENSE, "cuda", "without a speculative block"),
    ("dspark", "cpu"): (DSPARK, "cpu", "a CPU profile"),
    ("eagle", "dspark"): (DSPARK, "cuda", "set DSV4_SPECULATIVE=dspark or auto"),
    ("eagle", "cpu"): (DENSE, "cpu", "a CPU profile"),
}


@pytest.mark.parametrize(("asked", "config", "device", "wanted"),
                         [(key[0], *case) for key, case in DECISIONS.items()],
                         ids=[f"{a}, {b}" for a, b in DECISIONS])  # fmt: skip
def test_speculative_decoding_is_decided_by_the_checkpoint(
    asked: str, config: dict[str, Any] | None, device: str, wanted: str
) -> None:
    if wanted in ("off", "eagle", "dspark"):
        assert decide(asked, config, "m", device)[0] == wanted
        return
    with pytest.raises(SettingsError, match="DSV4_SPECULATIVE") as refused:
        decide(asked, config, "m", device)
    assert wanted in str(refused.value)


def planned(entry: Entry, folder: Path, **environ: str) -> Plan:
    """The plan of an entry on eight cards; the engine reads its config.json from a folder, as no weights are here."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(dict(entry.config)), encoding="utf-8")
    values = {"DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_MODEL": str(model), "DSV4_CACHE_DIR": str(folder / "c")}
    return make({**values, **environ}, eight_cards(), run=folder / "run")


@pytest.mark.parametrize("entry", SERVED.values(), ids=SERVED)
@pytest.mark.parametrize("speculative", ["off", "auto", "block"])
def test_every_entry_fits_eight_cards_with_the_defaults(entry: Entry, speculative: str) -> None:
    asked = (entry.draft or "off") if speculative == "block" else speculative
    environ = {"DSV4_MODEL": entry.name, "DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_SPECULATIVE": asked}
    situation = survey_facts(environ, eight_cards())
    assert situation.planned().settings.model == entry.hub
    finding = memory_fit.CHECK.run(situation)
    assert finding.verdict.value == "ok", finding
    assert "prefill" in finding.read


def test_a_model_of_which_only_the_size_is_known_is_refused_by_it(tmp_path: Path) -> None:
    plan = survey_facts({"DSV4_MODEL": "some/giant", "DSV4_PROFILE": "rtx-pro-6000-8x"}, eight_cards())
    giant = replace(plan, around=replace(plan.around, model=replace(plan.around.model, total_bytes=510 * 10**9)))
    finding = memory_fit.CHECK.run(giant)
    assert finding.verdict.value == "fail" and finding.subject == "DSV4_MODEL"
    assert "118.7 GiB of weights on each of 4 cards" in finding.read
    assert memory_fit.CHECK.run(plan).verdict.value == "ok"


@pytest.mark.engine
@pytest.mark.parametrize("entry", SERVED.values(), ids=SERVED)
@pytest.mark.parametrize(("role", "speculative"), [("prefill", "off"), ("decode", "block")])
def test_every_entry_resolves_through_the_engine(tmp_path: Path, entry: Entry, role: str, speculative: str) -> None:
    algorithm = (entry.draft or "off") if speculative == "block" else speculative
    plan = planned(entry, tmp_path, DSV4_SPECULATIVE=algorithm)
    write(plan)
    got = resolve(plan, role)
    assert got["attention_backend"] == "dsv4" and got["page_size"] == 256 and got["kv_cache_dtype"] == "fp8_e4m3"
    assert got["moe_runner_backend"] == BACKENDS[str(entry.experts)]
    if algorithm == "off":
        assert got["speculative_algorithm"] is None
        return
    assert got["speculative_algorithm"] == algorithm.upper()
    assert got["speculative_num_draft_tokens"] == (6 if algorithm == "dspark" else 4)
    assert got["speculative_moe_runner_backend"] == "flashinfer_mxfp4", "the draft's experts are MXFP4"


@pytest.mark.engine
@pytest.mark.parametrize("entry", SERVED.values(), ids=SERVED)
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_pools_of_every_entry_are_the_engine_s_own(tmp_path: Path, entry: Entry, role: str) -> None:
    plan = planned(entry, tmp_path, DSV4_SPECULATIVE=entry.draft or "off")
    engine = pool_sizes(plan, role, BUDGETS)
    assert engine["class"] == "DSV4PoolConfigurator"
    s = shape(entry)
    asked = load_of(plan.settings, next(r for r in plan.placement.roles if r.role == role), s)
    at_ratio = replace(asked, window_ratio=engine["ratio"])
    assert [pool_tokens(s, at_ratio, budget) for budget in BUDGETS] == [full for full, _ in engine["pools"]]


def test_models_lists_every_entry_and_how_it_fits(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DSV4_MODEL": "flash-0731"}
    command = [sys.executable, "-m", "dsv4_pd", "models"]
    found = json.loads(subprocess.run([*command, "--json"], env=env, capture_output=True, check=True).stdout)["models"]
    assert {line["name"] for line in found} == set(KNOWN)
    by_name = {line["name"]: line for line in found}
    assert by_name["flash-0731"]["default"] and not by_name["flash-0731"]["here"]
    assert by_name["v4.1-flash"]["fits"] is False and "510 GB" in by_name["v4.1-flash"]["why"]
    text = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "flash-0731 (default): " in text and "166.9 GB, experts mxfp4, dspark inside" in text
    assert "does not fit: its 510 GB" in text
