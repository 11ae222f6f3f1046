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
from dsv4_pd.doctor.catalogue import CHECKS, examine
from dsv4_pd.doctor.checks.gpus import memory_fit
from dsv4_pd.doctor.preflight import raise_failures
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.around.ahead import Ahead
from dsv4_pd.plan.around.unjudged import unjudged
from dsv4_pd.plan.disk.paths import models_dir
from dsv4_pd.plan.memory.model import pool_tokens
from dsv4_pd.plan.memory.plan import load_of
from dsv4_pd.plan.model import checkpoint
from dsv4_pd.plan.model.shape import EXPERTS, Shape, shape_of, weight_bytes
from dsv4_pd.plan.model.speculative import decide
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.shipped import catalogue
from dsv4_pd.plan.shipped.catalogue import Entry
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


CONVERTED = {key: value for key, value in KNOWN["flash-preview"].config.items() if key != "expert_dtype"}


@pytest.mark.parametrize(
    ("config", "total", "format_"),
    [
        (CONVERTED, None, "mxfp4"),
        (CONVERTED, 159_617_149_040, "mxfp4"),
        (CONVERTED, 293_000_000_000, "fp8"),
        (KNOWN["flash-preview"].config, 293_000_000_000, "fp8"),  # the original's config.json was kept
        ({**CONVERTED, "expert_dtype": "fp8"}, None, "fp8"),
        ({**CONVERTED, "expert_dtype": "fp8"}, 159_617_149_040, "mxfp4"),
        (KNOWN["flash-nvfp4"].config, 168_281_985_176, "nvfp4"),
    ],
)
def test_experts_are_as_large_as_the_files_say(config: dict[str, Any], total: int | None, format_: str) -> None:
    """The engine looks into the weights, so a checkpoint in FP8 is served as one, and takes twice the memory."""
    found = shape_of(config, total)
    assert found and found.expert_byte == EXPERTS[format_]


def spelled(**keys: Any) -> dict[str, Any]:
    """The preview's config.json with another quantization_config."""
    return {**KNOWN["flash-preview"].config, "quantization_config": keys}


MIXED = {"quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4", "group_size": 16}
SPELLINGS = {
    "NVIDIA's": (spelled(quant_method="fp8", **MIXED), "nvfp4", ""),
    "DeepSeek's": (spelled(quant_method="fp8"), "mxfp4", ""),
    "none": (spelled(), "mxfp4", ""),
    "no object": ({**KNOWN["flash-preview"].config, "quantization_config": [1]}, "mxfp4", ""),
    "ModelOpt of every layer": (
        spelled(quant_method="modelopt", quant_algo="NVFP4", group_size=16), None, "quant_algo 'NVFP4'"),
    "ModelOpt, named by its algorithm alone": (spelled(quant_algo="NVFP4"), None, "quant_algo 'NVFP4'"),
    "ModelOpt, mixed": (spelled(quant_method="modelopt", **MIXED), None, "quant_method 'modelopt'"),
    "mixed without the experts' algorithm": (
        spelled(quant_method="fp8", quant_algo="MIXED_PRECISION"), None, "quant_algo 'MIXED_PRECISION'"),
    "compressed-tensors": (
        spelled(quant_method="compressed-tensors", format="nvfp4-pack-quantized"), None, "'compressed-tensors'"),
    "compression_config": (
        {**KNOWN["flash-preview"].config, "compression_config": {"format": "x"}}, None, "compression_config"),
}  # fmt: skip


@pytest.mark.parametrize(("config", "experts", "said"), SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("total", [None, 168_281_985_176])
def test_a_format_that_is_not_known_is_said_and_not_taken_for_another(
    config: dict[str, Any], experts: str | None, said: str, total: int | None
) -> None:
    assert checkpoint.expert_format(config) == experts
    assert checkpoint.has_nvfp4_experts(config) is (experts == "nvfp4")
    assert checkpoint.expert_flags(config) == (
        {"moe-runner-backend": "flashinfer_cutlass"} if experts == "nvfp4" else {}
    )
    found = survey_facts({"DSV4_MODEL": "some/finetune", "DSV4_PROFILE": "rtx-pro-6000-8x"}, eight_cards()).around
    around = replace(found, config=config, shape=shape_of(config, total), model=replace(found.model, total_bytes=total))
    told = [text for text in unjudged(around) if text.startswith("its experts: ")]
    assert len(told) == bool(said) and all(said in text for text in told)


def named(**settings: Any) -> Settings:
    return catalogue.resolve(Settings(**settings), KNOWN)


def test_a_name_becomes_the_hub_s_with_its_pinned_revision(tmp_path: Path) -> None:
    flash = KNOWN["flash-0731"]
    for model in ("flash-0731", "Flash-0731", flash.hub, flash.hub.lower(), flash.hub.upper()):
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
        ("deepseek-ai/deepseek-v4.1-flash", "leave no room on eight cards"),
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
    ("dspark", "nvfp4"): (NVFP4, "cuda", "HybridFp8NvFp4Config.get_quant_method"),
    ("eagle", "nvfp4 with an MTP layer"): (KNOWN["flash-nvfp4"].config, "cuda", "whose experts are NVFP4"),
    ("eagle", "nvfp4 with DSpark"): (NVFP4, "cuda", "whose experts are NVFP4"),
    ("off", "nvfp4"): (NVFP4, "cuda", "off"),
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


def block(entry: Entry) -> str:
    """What drafts from this checkpoint on sm_120."""
    return "off" if entry.experts == "nvfp4" else entry.draft or "off"


@pytest.mark.parametrize("name", ["flash-0731-nvfp4", "flash-nvfp4"])
@pytest.mark.parametrize("algorithm", ["dspark", "eagle"])
def test_a_start_with_a_draft_beside_nvfp4_is_refused_before_anything_is_loaded(name: str, algorithm: str) -> None:
    found = survey_facts({"DSV4_MODEL": name, "DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_SPECULATIVE": algorithm},
                         eight_cards())  # fmt: skip
    assert found.plan is None and isinstance(found.refusal, SettingsError)
    assert [problem.subject for problem in found.refusal.problems] == ["DSV4_SPECULATIVE"]


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
    asked = block(entry) if speculative == "block" else speculative
    environ = {"DSV4_MODEL": entry.name, "DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_SPECULATIVE": asked}
    situation = survey_facts(environ, eight_cards())
    assert situation.planned().settings.model == entry.hub
    finding = memory_fit.CHECK.run(situation)
    assert finding.verdict.value == "ok", finding
    assert "prefill" in finding.read


BLOCK = "--speculative-dspark-block-size"


@pytest.mark.parametrize(("extra", "tokens"), [("", 6), (f"{BLOCK} 9", 10), ("--speculative-dspark-bl=2", 3)])
def test_the_memory_model_knows_dspark_s_block_whoever_chose_it(extra: str, tokens: int) -> None:
    environ = {"DSV4_MODEL": "flash-0731", "DSV4_PROFILE": "rtx-pro-6000-8x", "DSV4_SPECULATIVE": "dspark"}
    both = {"DSV4_PREFILL_EXTRA_ARGS": extra, "DSV4_DECODE_EXTRA_ARGS": extra}
    plan = make({**environ, **both}, eight_cards())
    loads = [load_of(plan.settings, role, shape(KNOWN["flash-0731"])) for role in plan.placement.roles]
    assert [load.draft_tokens for load in loads] == [tokens, tokens]


@pytest.mark.engine
def test_the_engine_takes_the_operator_s_block(tmp_path: Path) -> None:
    extra = dict.fromkeys(("DSV4_PREFILL_EXTRA_ARGS", "DSV4_DECODE_EXTRA_ARGS"), f"{BLOCK} 9")
    plan = planned(KNOWN["flash-0731"], tmp_path, DSV4_SPECULATIVE="dspark", **extra)
    write(plan)
    assert resolve(plan, "decode")["speculative_num_draft_tokens"] == 10


def test_a_model_of_which_only_the_size_is_known_is_refused_by_it(tmp_path: Path) -> None:
    plan = survey_facts({"DSV4_MODEL": "some/giant", "DSV4_PROFILE": "rtx-pro-6000-8x"}, eight_cards())
    giant = replace(plan, around=replace(plan.around, model=replace(plan.around.model, total_bytes=510 * 10**9)))
    finding = memory_fit.CHECK.run(giant)
    assert finding.verdict.value == "fail" and finding.subject == "DSV4_MODEL"
    assert "118.7 GiB of weights on each of 4 cards" in finding.read
    assert memory_fit.CHECK.run(plan).verdict.value == "ok"


GIANT = {"DSV4_MODEL": "nvidia/DeepSeek-V4.1-Flash-NVFP4", "DSV4_PROFILE": "rtx-pro-6000-8x"}
LONG = {"max_position_embeddings": 1 << 20}
AHEAD: dict[str, tuple[dict[str, str], int, dict[str, Any] | None, str | None]] = {
    "another kind, too heavy": ({}, 510 * 10**9, {"model_type": "deepseek_v41", **LONG}, "118.7 GiB of weights"),
    "no config, too heavy": ({}, 510 * 10**9, None, "118.7 GiB of weights"),
    "another kind": ({}, 160 * 10**9, {"model_type": "qwen2", **LONG}, None),
    "ours": ({}, 160 * 10**9, dict(KNOWN["flash-preview"].config), None),
    "ours in FP8, too heavy": ({}, 560 * 10**9, dict(KNOWN["flash-preview"].config), "of weights on each of 4 cards"),
    "a context too long": ({"DSV4_CONTEXT_LENGTH": "65536"}, 10**9,
                           {"model_type": "qwen2", "max_position_embeddings": 32768}, "DSV4_CONTEXT_LENGTH"),
    "no block": ({"DSV4_SPECULATIVE": "dspark"}, 10**9, {"model_type": "qwen2", **LONG}, "without a speculative block"),
}  # fmt: skip


@pytest.mark.parametrize("environ,weights,config,words", AHEAD.values(), ids=AHEAD)
def test_what_the_hub_tells_of_an_unknown_model_is_enough_to_refuse_it(
    environ: dict[str, str], weights: int, config: dict[str, Any] | None, words: str | None
) -> None:
    situation = survey_facts({**GIANT, **environ}, eight_cards(), Ahead(weights, config))
    fatal = tuple(check for check in CHECKS if check.name in ("memory-fit", "model-files"))
    if words is None:
        situation.planned()
        raise_failures(examine(situation, fatal))
        return
    with pytest.raises(SettingsError) as refused:
        situation.planned()
        raise_failures(examine(situation, fatal))
    assert words in str(refused.value)


@pytest.mark.engine
@pytest.mark.parametrize("entry", SERVED.values(), ids=SERVED)
@pytest.mark.parametrize(("role", "speculative"), [("prefill", "off"), ("decode", "block")])
def test_every_entry_resolves_through_the_engine(tmp_path: Path, entry: Entry, role: str, speculative: str) -> None:
    algorithm = block(entry) if speculative == "block" else speculative
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
    assert got["speculative_moe_runner_backend"] == BACKENDS[str(entry.experts)], "the target's"


@pytest.mark.engine
@pytest.mark.parametrize("entry", SERVED.values(), ids=SERVED)
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_pools_of_every_entry_are_the_engine_s_own(tmp_path: Path, entry: Entry, role: str) -> None:
    plan = planned(entry, tmp_path, DSV4_SPECULATIVE=block(entry))
    engine = pool_sizes(plan, role, BUDGETS)
    assert engine["class"] == "DSV4PoolConfigurator"
    s = shape(entry)
    asked = load_of(plan.settings, next(r for r in plan.placement.roles if r.role == role), s)
    at_ratio = replace(asked, window_ratio=engine["ratio"])
    assert [pool_tokens(s, at_ratio, budget) for budget in BUDGETS] == [full for full, _ in engine["pools"]]


def test_models_tells_of_a_model_that_it_does_not_know(tmp_path: Path) -> None:
    model = tmp_path / "finetune"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(dict(CONVERTED)), encoding="utf-8")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DSV4_MODEL": str(model)}
    command = [sys.executable, "-m", "dsv4_pd", "models"]
    text = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert f"{model}: DSV4_MODEL, which is not in the catalogue" in text
    assert "not known: the format of its experts, taken to be MXFP4" in text
    found = json.loads(subprocess.run([*command, "--json"], env=env, capture_output=True, check=True).stdout)
    assert found["other"]["name"] == str(model) and found["other"]["draft"] == "eagle"
    plain = {**env, "DSV4_MODEL": "flash-0731"}
    assert (
        json.loads(subprocess.run([*command, "--json"], env=plain, capture_output=True, check=True).stdout)["other"]
        is None
    )


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
    assert text.count("dspark inside, which no kernel") == text.count("eagle inside, which no kernel") == 1
