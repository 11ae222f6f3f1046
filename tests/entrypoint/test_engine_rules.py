"""Rules between settings, profile and model: refused at once, by name, as the engine itself would minutes later."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import VENVS
from dsv4_pd.errors import HardwareError, SettingsError
from dsv4_pd.plan import model_context
from dsv4_pd.plan.engine_rules import server_context
from dsv4_pd.plan.survey import survey_facts
from support.plans import ROOT, eight_cards, make, no_gpu

DEMO = {"DSV4_PROFILE": "demo-cpu"}


@pytest.mark.parametrize(
    ("environ", "subject", "expected"),
    [
        ({"DSV4_SERVED_MODEL_NAME": "deepseek-v4:flash"}, "DSV4_SERVED_MODEL_NAME", "without a colon"),
        ({"DSV4_CONTEXT_LENGTH": "100000"}, "DSV4_CONTEXT_LENGTH", "at most 8192, the model's own"),
        ({"DSV4_CONTEXT_LENGTH": "8193"}, "DSV4_CONTEXT_LENGTH", "at most 8192, the model's own"),
    ],
)
def test_the_demo_refuses(environ: dict[str, str], subject: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make({**DEMO, **environ}, no_gpu())
    (problem,) = caught.value.problems
    assert problem.subject == subject and expected in problem.expected


def test_a_models_own_name_with_a_colon_is_refused_where_it_would_be_served(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.symlink_to(ROOT / "demo/model")
    with pytest.raises(SettingsError, match=r"DSV4_SERVED_MODEL_NAME: found .*a:b', the model's own name"):
        make({"DSV4_PROFILE": "single", "DSV4_MODE": "single", "DSV4_MODEL": str(folder)}, eight_cards())
    make({**DEMO, "DSV4_MODEL": str(folder)}, no_gpu())  # the profile gives a name


def test_a_step_fills_whole_pages_on_a_gpu_only() -> None:
    with pytest.raises(SettingsError, match=r"a multiple of 256.*set DSV4_CHUNKED_PREFILL_SIZE=1024"):
        make({"DSV4_CHUNKED_PREFILL_SIZE": "1000"}, eight_cards())
    make({**DEMO, "DSV4_CHUNKED_PREFILL_SIZE": "128"}, no_gpu())


def test_the_catalogues_context_is_held_before_the_model_is_here() -> None:
    """160 GB must not be downloaded for a start that is refused afterwards."""
    make(
        {"DSV4_MODEL": "flash-0731", "DSV4_CONTEXT_LENGTH": "1048576", "DSV4_PROFILE": "rtx-pro-6000-8x"}, eight_cards()
    )
    with pytest.raises(SettingsError, match="at most 1048576, the model's own"):
        make({"DSV4_MODEL": "flash-0731", "DSV4_CONTEXT_LENGTH": "1048577"}, eight_cards())


def test_what_the_engine_and_the_checkpoint_refuse_is_told_together() -> None:
    with pytest.raises(SettingsError) as caught:
        make(
            {"DSV4_MODEL": "flash-0731", "DSV4_SPECULATIVE": "eagle", "DSV4_CHUNKED_PREFILL_SIZE": "1000"},
            eight_cards(),
        )
    assert [problem.subject for problem in caught.value.problems] == ["DSV4_CHUNKED_PREFILL_SIZE", "DSV4_SPECULATIVE"]


@pytest.mark.parametrize(("length", "leave"), [(4096, False), (7936, False), (8192, True)])
def test_the_setting_is_what_is_usable(length: int, leave: bool) -> None:
    """The engine keeps some of its context; all of the model's own can be had."""
    plan = make({**DEMO, "DSV4_CONTEXT_LENGTH": str(length)}, no_gpu())
    for program in plan.programs[:2]:
        env = dict(program.env)
        assert f"context-length: {length + 256}\n" in program.files[0].text
        assert env["DSV4_CONTEXT_LIMIT"] == str(length)
        assert ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" in env) is leave
    assert server_context(plan.settings) == length + 256


# --- GPUs by name: a wrong setting, never missing hardware


@pytest.mark.parametrize(
    ("prefill", "decode"), [("0", "1"), ("0-3", "4-9"), ("0,1", "7,8"), ("0", ""), ("0,0", "1,2"), ("0-3", "3-6")]
)
def test_lists_that_can_not_be_are_wrong_settings(prefill: str, decode: str) -> None:
    situation = survey_facts({"DSV4_PREFILL_GPUS": prefill, "DSV4_DECODE_GPUS": decode}, eight_cards())
    assert isinstance(situation.refusal, SettingsError) and not isinstance(situation.refusal, HardwareError)
    assert all("DSV4_" in problem.subject and "_GPUS" in problem.subject for problem in situation.refusal.problems)


@pytest.mark.parametrize(("prefill", "decode", "profile"), [("0-3", "4-7", "8x"), ("0,1", "", "4x"), ("", "4-7", "8x")])
def test_ranges_are_understood(prefill: str, decode: str, profile: str) -> None:
    plan = make({"DSV4_PREFILL_GPUS": prefill, "DSV4_DECODE_GPUS": decode}, eight_cards())
    assert plan.profile.name.endswith(profile)
    assert not set(plan.placement.roles[0].gpus) & set(plan.placement.roles[1].gpus)


# --- the engine's own functions

CONFIGS = [
    {"max_position_embeddings": 4096}, {"max_sequence_length": 10, "max_position_embeddings": 4096}, {"vocab_size": 7},
    {"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    {"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                                       "original_max_position_embeddings": 64}},
    {"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "llama3", "factor": 4.0}},
    json.loads((ROOT / "demo/model/config.json").read_text()),
]  # fmt: skip
_ASK = """
import json, sys
from types import SimpleNamespace
from sglang.srt.utils.hf_transformers.common import get_context_length
print(json.dumps([get_context_length(SimpleNamespace(**config)) for config in json.loads(sys.argv[1])]))
"""


@pytest.mark.engine
def test_the_models_context_is_the_engines_own_answer() -> None:
    python = VENVS / "engine/bin/python"
    done = subprocess.run([python, "-c", _ASK, json.dumps(CONFIGS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [model_context.derived(config) for config in CONFIGS]
