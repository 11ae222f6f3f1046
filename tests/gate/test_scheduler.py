"""The account of a grammar in the engine's own scheduler classes, with a grammar that the door would have refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, VENVS

PROGRAM = """
import json, multiprocessing, sys
import sglang.srt.managers.scheduler
multiprocessing.parent_process = object
from sglang.srt.plugins import load_plugins
load_plugins()
from types import SimpleNamespace
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend
from sglang.srt.managers.scheduler import Scheduler
from transformers import PreTrainedTokenizerFast
from dsv4_gate.budget import MOST_S, spent

tokenizer = PreTrainedTokenizerFast(tokenizer_file=sys.argv[2])
backend = XGrammarGrammarBackend(tokenizer, vocab_size=len(tokenizer), model_eos_token_ids=[1])
mask = backend.allocate_vocab_mask(len(tokenizer), 1, "cpu")
(token,) = tokenizer.encode("a", add_special_tokens=False)

def walk(grammar, steps):
    done = 0
    while done < steps and spent(grammar) <= MOST_S:
        grammar.fill_vocab_mask(mask, 0)
        grammar.accept_token(token)
        done += 1
    return done

slow, plain = backend.dispatch_ebnf('root ::= root root | "a"'), backend.dispatch_regex("a*")
steps = walk(slow, 4000), walk(plain, 4000)
requests = [SimpleNamespace(rid=rid, grammar=grammar, finished=lambda: False)
            for rid, grammar in (("slow", slow), ("plain", plain), ("none", None))]
scheduler = SimpleNamespace(waiting_queue=[], collect_inflight_reqs=lambda: requests)
aborts = Scheduler._poll_timeout_aborts(scheduler)
json.dump({"steps": steps, "aborts": [(abort.rid, abort.abort_message) for abort in aborts],
           "again": len(Scheduler._poll_timeout_aborts(scheduler))}, open(sys.argv[1], "w"))
"""


@pytest.mark.engine
def test_a_slow_grammar_ends_its_own_request_only(tmp_path: Path) -> None:
    from dsv4_gate.budget import WORDS

    found = tmp_path / "found.json"
    environ = {"SGLANG_PLUGINS": "dsv4-gate", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "gate")}
    command: list[str | Path] = [VENVS / "engine/bin/python", "-c", PROGRAM, found, ROOT / "demo/model/tokenizer.json"]
    subprocess.run(command, env=environ, check=True, timeout=300, capture_output=True)
    answer = json.loads(found.read_text())
    slow, plain = answer["steps"]
    assert slow < plain == 4000, "an ordinary grammar uses up nothing, however long its answer"
    assert answer["aborts"] == [["slow", WORDS]]
    assert answer["again"] == 0
