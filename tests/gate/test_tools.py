"""Tools of both kinds in one request, and beside a form of the answer."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from conftest import ROOT, VENVS

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str, strict: bool | None = None) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name, "description": "d", "parameters": CITY}
    return {"type": "function", "function": function if strict is None else {**function, "strict": strict}}


def test_only_what_the_renderer_refuses_is_changed() -> None:
    from dsv4_gate.tools import evened

    for body in ({}, {"tools": None}, {"tools": [tool("a"), tool("b", False)]}, {"tools": [tool("a", True)]}):
        assert evened(body) is body
    mixed = {"tools": [tool("a", True), tool("b")], "x": 1}
    before = json.dumps(mixed)
    found = evened(mixed)
    assert [one["function"].get("strict") for one in found["tools"]] == [None, None]
    closed = found["tools"][0]["function"]["parameters"]
    assert list(closed) == ["type", "properties", "additionalProperties", "required"]
    assert found["tools"][1]["function"]["parameters"] == CITY
    assert json.dumps(mixed) == before


PROGRAM = """
import json, sys
from transformers import AutoTokenizer
import xgrammar
from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, ResponsesRequest
from sglang.srt.parser.deepseek_recipe_renderer import DeepSeekRecipe
from dsv4_gate import forms, tool_hooks
from dsv4_gate.grammars import Judge
from dsv4_gate.tools import evened

CITY, tools = json.loads(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
recipe = DeepSeekRecipe.from_hf_tokenizer("dsv4", tokenizer)
form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": CITY}}

def rendered(tools, **fields):
    body = {"messages": [{"role": "user", "content": "Hi"}], "thinking": False, "tools": tools, "tool_choice": "auto"}
    try:
        return tokenizer.decode(recipe.encode(evened({**body, **fields})))
    except ValueError as error:
        return f"refused: {error}"

def sampling(**fields):
    request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "Hi"}], tools=tools, **fields)
    return tool_hooks._sampling(ChatCompletionRequest.to_sampling_params, request, [], {}, None, True)

def responses(constraint=None, flat=None, **fields):
    flat = flat or [{"type": "function", **tool["function"], "strict": True} for tool in tools]
    request = ResponsesRequest(model="m", input="Hi", tools=flat, text={"format": {**form, **form["json_schema"]}},
                               **fields)
    return tool_hooks._responses(ResponsesRequest.to_sampling_params, request, None, {}, stop=[],
                                 tool_call_constraint=constraint)

def responses_grammars(**fields):
    found = responses(**fields)
    return sorted(name for name in ("json_schema", "structural_tag") if found.get(name))

custom = responses(flat=[{"type": "custom", "name": "c", "description": "d"}])
both = sampling(response_format=form)
grammar = xgrammar.Grammar.from_structural_tag(json.loads(both["structural_tag"]))
def takes(text, grammar=grammar):
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo([bytes([i]) for i in range(256)]))
    matcher = xgrammar.GrammarMatcher(compiler.compile_grammar(grammar), terminate_without_stop_token=True)
    return matcher.accept_string(text) and matcher.is_terminated()

D = chr(0xff5c) + "DSML" + chr(0xff5c)
city = f'<{D}parameter name="city" string="true">Rome</{D}parameter>'
call = f'\\n\\n<{D}tool_calls>\\n<{D}invoke name="a">\\n{city}\\n</{D}invoke>\\n</{D}tool_calls>'
def grammars(**fields):
    return sorted(name for name in ("json_schema", "structural_tag") if sampling(**fields).get(name))

json.dump({
    "strict alone": rendered([tools[0]]), "mixed": rendered(tools),
    "beside a form": rendered(tools, response_format=form),
    "strict beside a form": rendered([tools[0]], response_format=form),
    "auto": grammars(response_format=form),
    "judged": Judge(forms.form).refusal(both),
    "json": takes('{"city": "Rome"}'), "call": takes(call), "text": takes("Rome"), "other": takes('{"town": "Rome"}'),
    "responses": responses(constraint=("json_schema", {"type": "array"}))["structural_tag"] == both["structural_tag"],
    "responses auto": responses_grammars(), "responses none": responses_grammars(tool_choice="none"),
    "responses required": responses_grammars(tool_choice="required"),
    "responses named": responses_grammars(tool_choice={"type": "function", "name": "a"}),
    "web search": responses_grammars(flat=[{"type": "web_search"}]),
    "custom": json.loads(custom["structural_tag"])["format"]["type"],
    "one": sampling(response_format=form, parallel_tool_calls=False)["structural_tag"]
           == responses(parallel_tool_calls=False)["structural_tag"],
    "required": grammars(response_format=form, tool_choice="required"),
    "none": grammars(response_format=form, tool_choice="none"),
}, sys.stdout)
"""


@pytest.mark.engine
def test_the_engine_renders_and_holds_both() -> None:
    arguments = [json.dumps([CITY, [tool("a", True), tool("b")]]), str(ROOT / "demo/model")]
    environ = {"PYTHONPATH": f"{ROOT / 'gate'}:{ROOT / 'hooks'}", "HOME": "/nonexistent", "HF_HUB_OFFLINE": "1"}
    command = [str(VENVS / "engine/bin/python"), "-c", PROGRAM, *arguments]
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout.splitlines()[-1])
    line = next(line for line in found["strict alone"].splitlines() if line.startswith('{"name": "a"'))
    for name in ("mixed", "beside a form", "strict beside a form"):
        assert line in found[name].splitlines(), "a strict tool is written down as usual"
    assert '{"name": "b"' in found["mixed"]
    assert found["auto"] == ["structural_tag"]
    assert found["judged"] is None
    assert (found["json"], found["call"], found["text"], found["other"]) == (True, True, False, False)
    assert found["responses"], "the same grammar as a chat's, and no error where strict tools have one of their own"
    assert (found["responses auto"], found["responses none"]) == (["structural_tag"], ["json_schema"])
    assert (found["responses required"], found["responses named"]) == ([], [])
    assert found["web search"] == ["json_schema"], "what nobody can call leaves the form alone"
    assert found["custom"] == "or"
    assert found["one"]
    assert found["required"] == [], "the call's own grammar comes from the engine"
    assert found["none"] == ["json_schema"]
