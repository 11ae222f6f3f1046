"""The gate beside the engine it was written for: every target is there, and the engine puts every hook in place."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, VENVS

PROGRAM = """
import json, multiprocessing, sys
if sys.argv[2] == "scheduler":
    import sglang.srt.managers.scheduler
    multiprocessing.parent_process = object
if sys.argv[2] == "detokenizer":
    multiprocessing.parent_process = object
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry
load_plugins()
import logging
from dsv4_gate.lines import MARK
from dsv4_gate.rendezvous import TARGET
from dsv4_gate.targets import PARAMETERS, SCHEDULER
json.dump({
    "applied": sorted(HookRegistry._patched),
    "main": sorted(PARAMETERS), "scheduler": sorted([*SCHEDULER, TARGET]), "detokenizer": [TARGET],
    "one line": hasattr(logging.Handler.format, MARK),
}, open(sys.argv[1], "w"))
"""


@pytest.mark.engine
@pytest.mark.parametrize("process", ["main", "scheduler", "detokenizer"])
def test_the_engine_applies_every_hook(tmp_path: Path, process: str) -> None:
    found = tmp_path / "found.json"
    records = tmp_path / "records"
    environ = {"SGLANG_PLUGINS": "dsv4-gate", "DSV4_PLUGIN_RECORD_DIR": str(records), "HOME": str(tmp_path),
               "PYTHONPATH": str(ROOT / "gate")}  # fmt: skip
    subprocess.run([VENVS / "engine/bin/python", "-c", PROGRAM, found, process], env=environ, check=True, timeout=300)
    answer = json.loads(found.read_text())
    assert answer["applied"] == answer[process]
    assert answer["one line"], "in every process"
    (record,) = records.glob("*.json")
    assert json.loads(record.read_text())["status"] == "ok"


ENCODINGS = """
import json, sys
from types import SimpleNamespace as Namespace
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat
def spec(template):
    config = Namespace(hf_config=Namespace(architectures=["DeepseekV4ForCausalLM"], model_type="deepseek_v4"))
    manager = Namespace(server_args=Namespace(chat_template=template), model_config=config, tokenizer=None)
    serving = Namespace(tokenizer_manager=manager, tool_call_parser="deepseekv4")
    return OpenAIServingChat._resolve_chat_encoding_spec(serving)
json.dump([spec(None), spec("/t.jinja")], open(sys.argv[1], "w"))
"""


@pytest.mark.engine
@pytest.mark.parametrize(("plugin", "expected"), [("dsv4-gate", ["dsv4", None]), ("none", ["dsv4", "dsv4"])])
def test_a_template_that_is_given_is_the_one_that_makes_prompts(
    tmp_path: Path, plugin: str, expected: list[str | None]
) -> None:
    """Without the gate the engine loads it and uses its own encoder."""
    found = tmp_path / "found.json"
    environ = {"SGLANG_PLUGINS": plugin, "DSV4_PLUGIN_RECORD_DIR": str(tmp_path / "records"), "HOME": str(tmp_path),
               "PYTHONPATH": str(ROOT / "gate")}  # fmt: skip
    subprocess.run([VENVS / "engine/bin/python", "-c", ENCODINGS, found], env=environ, check=True, timeout=600)
    assert json.loads(found.read_text()) == expected


LEFT = """
import asyncio, json, sys
from types import SimpleNamespace as Namespace
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.managers.tokenizer_manager import TokenizerManager
def ends(**fields):
    task = TokenizerManager.create_abort_task(Namespace(rid_to_state={}), GenerateReqInput(**fields))
    try:
        asyncio.run(task())
    except Exception as error:
        return type(error).__name__
    return "well"
json.dump([ends(text="x"), ends(text=["x", "y"], rid=["a", "b"])], open(sys.argv[1], "w"))
"""


@pytest.mark.engine
@pytest.mark.parametrize(("plugin", "expected"), [("dsv4-gate", "well"), ("none", "AttributeError")])
def test_what_follows_a_stream_that_was_refused_ends_well(tmp_path: Path, plugin: str, expected: str) -> None:
    """Without the gate it fails, and the connection is closed under the request that came after."""
    found = tmp_path / "found.json"
    environ = {"SGLANG_PLUGINS": plugin, "DSV4_PLUGIN_RECORD_DIR": str(tmp_path / "records"), "HOME": str(tmp_path),
               "PYTHONPATH": str(ROOT / "gate")}  # fmt: skip
    subprocess.run([VENVS / "engine/bin/python", "-c", LEFT, found], env=environ, check=True, timeout=300)
    assert json.loads(found.read_text()) == [expected] * 2


FIELDS = """
import dataclasses, inspect, json, sys
from sglang.srt.disaggregation.utils import MetadataBuffers
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.sampling.sampling_params import SamplingParams
json.dump({
    "request": [field.name for field in dataclasses.fields(GenerateReqInput)],
    "sampling": list(SamplingParams.__struct_fields__),
    "logprobs": inspect.signature(MetadataBuffers).parameters["max_top_logprobs_num"].default,
}, open(sys.argv[1], "w"))
"""


@pytest.mark.engine
def test_every_field_of_the_engine_s_request_is_decided_on(tmp_path: Path) -> None:
    """One that no table has would pass unseen, as the engine's own fields in a client's request did."""
    from dsv4_gate.fields import DERIVED, ENGINES, INNER, SAMPLING, SERVED
    from dsv4_gate.rules import MOST_LOGPROBS, UNSERVED

    found = tmp_path / "found.json"
    environ = {"HOME": str(tmp_path), "SGLANG_PLUGINS": "none"}
    subprocess.run([VENVS / "engine/bin/python", "-c", FIELDS, found], env=environ, check=True, timeout=300)
    engine = json.loads(found.read_text())
    tables = [set(table) for table in (SERVED, ENGINES, INNER, UNSERVED)]
    assert sum(map(len, tables)) == len(set().union(*tables)), "each in one table"
    assert set(engine["request"]) == set().union(*tables)
    assert set(engine["sampling"]) == SAMPLING | DERIVED and not SAMPLING & DERIVED
    assert engine["logprobs"] == MOST_LOGPROBS, "what prefill can hand over"
