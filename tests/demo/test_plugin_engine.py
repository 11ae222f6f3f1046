"""The plugin and the training encoding, inside the engine's own environment."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.pair import ROOT, VENVS

pytestmark = pytest.mark.engine

# What SGLang does to a plugin: look it up by group, call it, and swallow what it raises.
LOAD = "from sglang.srt.plugins import load_plugins; load_plugins(); print('served on')"
BROKEN = "import nixl._api as api; del api.nixl_agent.get_xfer_descs; "
PARSE = """
import random
from tokenizers import Tokenizer
from sglang.srt.parser.deepseek_recipe_renderer import DeepSeekRecipe
from sglang.srt.parser.deepseek_recipe_output import parse_output_text, whole_tool_calls
from demo.train.corpus import draw, read_book
from demo.train.encoding import answer_text
import json
recipe = DeepSeekRecipe("dsv4", Tokenizer.from_file("demo/model/tokenizer.json"))
book, rng = read_book(), random.Random(5)
for _ in range(300):
    sample = draw(rng, book)
    text = answer_text(sample).removesuffix("<｜end▁of▁sentence｜>")
    parsed = parse_output_text(recipe, text, parse_tool_calls=True, thinking=sample.thought is not None)
    calls = [(call.name, json.loads(call.arguments)) for call in whole_tool_calls(parsed)]
    assert parsed.reasoning == (sample.thought or ""), (sample, parsed)
    assert parsed.content == sample.content, (sample, parsed)
    assert calls == [(call.name, call.arguments) for call in sample.calls], (sample, parsed)
print("parsed")
"""
TOKENIZER = """
from tokenizers import Tokenizer
from demo.train.corpus import read_book
from demo.train.train import shipped_tokenizer
made, shipped = shipped_tokenizer(read_book()), Tokenizer.from_file("demo/model/tokenizer.json")
assert made.get_vocab() == shipped.get_vocab()
print("same")
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "SGLANG_PLUGINS": "dsv4-cpu", "CUDA_VISIBLE_DEVICES": "", **environment}
    command = [str(VENVS / "engine/bin/python"), "-c", program]
    return subprocess.run(command, env=clean, cwd=ROOT, capture_output=True, text=True, check=False)


def test_sglang_finds_the_plugin_and_nixl_starts_on_host_memory(tmp_path: Path) -> None:
    agent = "import nixl._api as api; mems = api.nixl_agent('a').nixl_mems; print(mems['VRAM'] == mems['DRAM'])"
    done = run(f"{LOAD}; {agent}", DSV4_PLUGIN_RECORD_DIR=str(tmp_path))
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("served on", "True"), done.stderr
    content = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert content["status"] == "ok"
    assert set(content["patches"].values()) == {"installed", "active"}


def test_a_changed_nixl_ends_the_process_through_sglangs_loader(tmp_path: Path) -> None:
    done = run(f"{BROKEN}{LOAD}", DSV4_PLUGIN_RECORD_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "served on" not in done.stdout
    assert "dsv4-cpu plugin: nixl_agent has no 'get_xfer_descs'" in done.stderr
    assert json.loads(next(tmp_path.glob("*.json")).read_text())["status"] == "failed"


def test_a_visible_gpu_is_refused() -> None:
    done = run(LOAD.replace("load_plugins()", "import torch; torch.cuda.is_available = lambda: True; load_plugins()"))
    assert done.returncode == 1
    assert "set CUDA_VISIBLE_DEVICES to nothing" in done.stderr


def test_the_engines_parsers_read_what_the_model_is_trained_to_write() -> None:
    done = run(PARSE)
    assert done.stdout.strip() == "parsed", done.stderr[-2000:]


def test_the_training_script_makes_the_shipped_tokenizer() -> None:
    done = run(TOKENIZER)
    assert done.stdout.strip() == "same", done.stderr[-2000:]
