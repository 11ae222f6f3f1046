"""Rules between settings, profile and model: refused at once, by name, as the engine itself would minutes later."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import VENVS
from dsv4_pd.doctor.preflight import refuse
from dsv4_pd.errors import HardwareError, SettingsError
from dsv4_pd.host.capture import to_json
from dsv4_pd.host.facts import HostFacts, LostGpu
from dsv4_pd.plan.around import surroundings
from dsv4_pd.plan.model import context as model_context
from dsv4_pd.plan.programs import engine_rules
from dsv4_pd.plan.programs.engine_rules import ALIKE, server_context
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.settings.schema import Settings
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


@pytest.mark.parametrize(
    ("prefill", "decode", "fits"),
    [
        ("--quantization fp8", "", False),
        ("", "--quantization fp8", False),
        ("--quantization fp8", "--quantization=fp8 --log-requests", True),
        ("--quantization fp8", "--quantization mxfp4", False),
        ("--disaggregation-enable-kv-checksum", "", False),
        ("", "--disaggregation-enable-kv-check", False),
        ("", "--speculative-dspark-block-size 3", False),
        ("--speculative-dspark-block-size 3", "--speculative-dspark-block-size=5", False),
        ("--speculative-dspark-block 5", "--speculative-dspark-block-size=5", True),
        ("", "--speculative-draft-kv-cache-dtype bfloat16", False),
        ("--log-requests", "", True),
    ],
)
def test_what_both_roles_share_is_given_to_both(prefill: str, decode: str, fits: bool) -> None:
    environ = {"DSV4_PREFILL_EXTRA_ARGS": prefill, "DSV4_DECODE_EXTRA_ARGS": decode}
    if fits:
        make(environ, eight_cards())
        return
    with pytest.raises(SettingsError, match=r"DSV4_DECODE_EXTRA_ARGS: found --\S+: not as in DSV4_PREFILL_EXTRA_ARGS"):
        make(environ, eight_cards())
    make({**environ, "DSV4_LAYOUT": "single:8"}, eight_cards())  # one server has nobody to agree with


@pytest.mark.parametrize("field", ["DSV4_PREFILL_EXTRA_ARGS", "DSV4_DECODE_EXTRA_ARGS"])
@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ("--moe-runner-backend triton", "--moe-runner-backend triton, expected flashinfer_cutlass"),
        ("--moe-runner=flashinfer_mxfp4", "--moe-runner-backend flashinfer_mxfp4, expected flashinfer_cutlass"),
        ("--moe-runner-backend auto", "--moe-runner-backend auto, expected flashinfer_cutlass"),
        ("--quantization fp8", "--quantization fp8, expected none for NVFP4 experts"),
        ("--moe-runner-backend marlin", ""),
        ("--moe-runner-backend triton --moe-runner-backend flashinfer_cutedsl", ""),
        ("--moe-dense-tp-size 1", ""),
    ],
)
def test_nvfp4_experts_are_computed_by_a_runner_that_has_a_way_for_them(field: str, extra: str, found: str) -> None:
    environ = {"DSV4_MODEL": "flash-nvfp4", "DSV4_PROFILE": "rtx-pro-6000-8x", field: extra}
    if not found:
        make(environ, eight_cards())
        return
    with pytest.raises(SettingsError) as caught:
        make(environ, eight_cards())
    assert any(str(problem).startswith(f"{field}: found {found}") for problem in caught.value.problems)
    both = {**environ, "DSV4_PREFILL_EXTRA_ARGS": extra, "DSV4_DECODE_EXTRA_ARGS": extra}
    make({**both, "DSV4_MODEL": "flash-preview"}, eight_cards())  # other experts are the operator's own choice


def test_each_thing_that_nvfp4_has_no_way_for_is_told_at_once() -> None:
    extra = "--moe-runner-backend triton --quantization fp8"
    environ = {"DSV4_MODEL": "flash-nvfp4", "DSV4_PREFILL_EXTRA_ARGS": extra, "DSV4_DECODE_EXTRA_ARGS": extra}
    with pytest.raises(SettingsError) as caught:
        make(environ, eight_cards())
    assert [problem.found.split()[0] for problem in caught.value.problems] == [
        "--moe-runner-backend", "--quantization", "--moe-runner-backend", "--quantization",
    ]  # fmt: skip


TRUST = {"DSV4_MODEL": "owner/other", "DSV4_DECODE_EXTRA_ARGS": "--trust-remote-code",
         "DSV4_PREFILL_EXTRA_ARGS": "--trust-remote-code"}  # fmt: skip


@pytest.mark.parametrize("revision", ["", "main", "v1.0", "9e165c3"])
@pytest.mark.parametrize("flag", ["--trust-remote-code", "--trust-remote", "--trust-rem", "--log-requests --trust-rem"])
@pytest.mark.parametrize("role", ["PREFILL", "DECODE"])
def test_code_of_a_model_runs_from_a_commit_alone(revision: str, flag: str, role: str) -> None:
    values = {"DSV4_MODEL": "owner/other", f"DSV4_{role}_EXTRA_ARGS": flag, "DSV4_MODEL_REVISION": revision}
    with pytest.raises(SettingsError) as caught:
        make(values, eight_cards())
    (problem,) = caught.value.problems
    assert problem.subject == "DSV4_MODEL_REVISION" and f"DSV4_{role}_EXTRA_ARGS" in problem.found
    assert "remove --trust-remote-code" in problem.remedy and "whatever is pushed to owner/other" in problem.found
    make({**values, "DSV4_MODEL_REVISION": "c0ffee" * 6 + "c0ff"}, eight_cards())
    make({**values, f"DSV4_{role}_EXTRA_ARGS": "--log-requests"}, eight_cards())


def test_code_of_a_pinned_model_or_of_ones_own_folder_may_run(tmp_path: Path) -> None:
    make({**TRUST, "DSV4_MODEL": "flash-0731"}, eight_cards())  # the catalogue pins it
    make({**TRUST, "DSV4_MODEL": str(tmp_path)}, eight_cards())
    with pytest.raises(SettingsError, match="DSV4_MODEL_REVISION: found 'main'"):
        make({**TRUST, "DSV4_MODEL": "flash-0731", "DSV4_MODEL_REVISION": "main"}, eight_cards())


@pytest.mark.parametrize("table", ["common", "decode"])
@pytest.mark.parametrize("key", ["trust-remote-code", "trust_remote_code"])
def test_a_profile_may_not_trust_what_is_not_pinned(table: str, key: str) -> None:
    found = survey_facts({"DSV4_MODEL": "owner/other"}, eight_cards())
    assert found.profile is not None and engine_rules.problems(found.settings, found.profile, found.around) == []
    trusting = replace(found.profile, engine={table: {key: True}})
    (problem,) = engine_rules.problems(found.settings, trusting, found.around)
    assert problem.subject == "DSV4_MODEL_REVISION" and found.profile.name in problem.found
    off = replace(found.profile, engine={table: {key: False}})
    assert engine_rules.problems(found.settings, off, found.around) == []


def test_no_profile_of_ours_trusts_a_model_s_code() -> None:
    for path in (*ROOT.glob("config/profiles/*.toml"), *ROOT.glob("tests/gpu/profiles/*.toml")):
        assert "trust" not in path.read_text(encoding="utf-8"), path


def test_flags_that_roles_share_are_the_engine_s_and_not_the_plan_s() -> None:
    from dsv4_pd.plan.disk.paths import profiles_dir
    from dsv4_pd.plan.flags.command_line import parsers
    from dsv4_pd.plan.programs import owned_flags
    from dsv4_pd.plan.shipped import profiles

    assert set(parsers()["engine"]) >= ALIKE
    assert not ALIKE & set(owned_flags.engine_owned(profiles.read_all(profiles_dir())))


def test_one_template_for_every_server(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages }}")
    for layout in ("pd:4+4", "pd:2x2+2x2", "replicas:4x2"):
        plan = make({"DSV4_CHAT_TEMPLATE": str(template), "DSV4_LAYOUT": layout}, eight_cards())
        texts = [file.text for file in plan.files if file.path.suffix == ".yaml"]
        assert len(texts) > 1 or layout.startswith("single")
        assert all(f"chat-template: {template}\n" in text for text in texts)


@pytest.mark.parametrize("value", ["chatml", "/t.json", "/t", "/.jinja"])
def test_a_template_is_a_jinja_file(value: str) -> None:
    with pytest.raises(SettingsError, match=r"DSV4_CHAT_TEMPLATE: .*a Jinja file's path"):
        make({"DSV4_CHAT_TEMPLATE": value}, eight_cards())


def test_a_template_that_can_not_be_read_is_refused_before_the_load(tmp_path: Path) -> None:
    """The engine says so after the whole load: `is not a built-in template name or a valid chat template file path`."""
    (tmp_path / "bytes.jinja").write_bytes(b"\xff\xfe")
    for name, why in (("none.jinja", "No such file"), ("bytes.jinja", "not UTF-8")):
        values = {**DEMO, "DSV4_CHAT_TEMPLATE": str(tmp_path / name)}
        found = surroundings._unreadable(Settings(chat_template=values["DSV4_CHAT_TEMPLATE"]))
        assert why in found["chat_template"]
        done = subprocess.run([sys.executable, "-m", "dsv4_pd", "plan"], env={**values, "PATH": "/usr/bin:/bin"},
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 2 and "DSV4_CHAT_TEMPLATE" in done.stderr and why in done.stderr


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
    ("prefill", "decode"),
    [("0", "1"), ("0-3", "4-9"), ("0,1", "7,8"), ("0", ""), ("0,0", "1,2"), ("0-3", "3-6"), ("0-7", ""), ("", "0-7"),
     ("GPU-8932", "0,1"), ("0000:99:00.0", "0,1")],
)  # fmt: skip
@pytest.mark.parametrize("profile", ["auto", "rtx-pro-6000-8x"])
def test_lists_that_can_not_be_are_wrong_settings(prefill: str, decode: str, profile: str) -> None:
    environ = {"DSV4_PREFILL_GPUS": prefill, "DSV4_DECODE_GPUS": decode, "DSV4_PROFILE": profile}
    if decode in ("", "1") and prefill == "0":  # whoever names the profile may have servers of one card
        environ["DSV4_PROFILE"] = "auto"
    situation = survey_facts(environ, eight_cards())
    assert isinstance(situation.refusal, SettingsError) and not isinstance(situation.refusal, HardwareError)
    assert all("DSV4_" in problem.subject and "_GPUS" in problem.subject for problem in situation.refusal.problems)


def test_a_list_that_leaves_nothing_for_the_other_role_says_so() -> None:
    refusal = survey_facts({"DSV4_PREFILL_GPUS": "0-7"}, eight_cards()).refusal
    assert "DSV4_PREFILL_GPUS: found 8 GPUs of 8, which leaves 0 for decode, expected at most 4" in str(refusal)


@pytest.mark.parametrize(
    "text", ["--gpus=4", "--gpus 2", "gpus=8", "gpu=4", 'gpus="4"', "gpu:4", "4+4", "8932", "12345678", "0000", "all"]
)
def test_what_counts_cards_or_names_none_is_a_wrong_setting(text: str) -> None:
    with pytest.raises(SettingsError, match=r"DSV4_DECODE_GPUS: .*comma-separated GPUs"):
        survey_facts({"DSV4_DECODE_GPUS": text}, eight_cards())


@pytest.mark.parametrize("text", ["--gpus device=4,5", "device=4-5", "nvidia.com/gpu=4 nvidia.com/gpu=5", "gpus=4,5"])
def test_what_names_cards_in_a_tool_s_spelling_is_understood(text: str) -> None:
    assert [gpu.index for gpu in make({"DSV4_DECODE_GPUS": text}, eight_cards()).placement.roles[1].gpus] == [4, 5]


def test_a_setting_that_leaves_too_little_is_named_in_the_remedy() -> None:
    refusal = survey_facts({"DSV4_MIN_VRAM_GB": "110"}, eight_cards()).refusal
    assert isinstance(refusal, HardwareError)
    (problem,) = refusal.problems
    assert "with 110 GB or more" in problem.expected and "lower or unset DSV4_MIN_VRAM_GB" in problem.remedy
    (problem,) = survey_facts({"DSV4_PROFILE": "rtx-pro-6000-8x"}, eight_cards(4)).refusal.problems  # type: ignore[union-attr]
    assert "DSV4_MIN_VRAM_GB" not in problem.remedy


# --- a card that does not answer: named wherever the start ends, and never a wrong setting


def losing(*lost: int) -> HostFacts:
    facts = eight_cards()
    gpus = tuple(gpu for gpu in facts.gpus if gpu.index not in lost)
    return replace(facts, gpus=gpus, lost_gpus=tuple(LostGpu(index, "GPU is lost", 15) for index in lost))


@pytest.mark.parametrize(
    "environ",
    [{"DSV4_LAYOUT": "pd:4+4"}, {"DSV4_PROFILE": "rtx-pro-6000-8x"}, {"DSV4_LAYOUT": "single:8"}, {},
     {"DSV4_PREFILL_GPUS": "0-3", "DSV4_DECODE_GPUS": "4-7"}, {"DSV4_PREFILL_GPUS": "0-3"},
     {"DSV4_PREFILL_GPUS": "0,2", "DSV4_DECODE_GPUS": "4,5"}, {"DSV4_PREFILL_GPUS": "GPU-00000002"},
     {"DSV4_DECODE_GPUS": "0000:03:00.0,4"}],
)  # fmt: skip
def test_the_lost_card_is_named_by_the_start_that_it_ends(environ: dict[str, str]) -> None:
    with pytest.raises(HardwareError) as caught:
        refuse(survey_facts(environ, losing(2)))
    first = caught.value.problems[0]
    assert "GPU 2: GPU is lost: the card fell off" in first.found and "--gpu-reset" in first.remedy


def test_plan_names_the_lost_card_as_serve_does(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    file.write_text(to_json(losing(2)))
    env = {"PATH": "/usr/bin:/bin", "DSV4_LAYOUT": "pd:4+4"}
    done = subprocess.run([sys.executable, "-m", "dsv4_pd", "plan", "--facts", str(file)], env=env, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 70 and "gpu-visible: found 7 GPUs answer, 1 do not (GPU 2: GPU is lost" in done.stderr


def test_a_wrong_setting_beside_a_lost_card_stays_one() -> None:
    with pytest.raises(SettingsError, match=r"(?s)^DSV4_PREFILL_GPUS: found '9'.*GPU 2: GPU is lost"):
        refuse(survey_facts({"DSV4_PREFILL_GPUS": "9"}, losing(2)))


def test_lost_cards_that_are_ignored_are_still_named_where_too_few_are_left() -> None:
    environ = {"DSV4_LOST_GPUS": "ignore", "DSV4_PROFILE": "rtx-pro-6000-8x"}
    with pytest.raises(
        HardwareError, match=r"7 fitting GPUs of 8 \(not counted: 2: does not answer \(NVML: GPU is lost"
    ):
        refuse(survey_facts(environ, losing(2)))


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
