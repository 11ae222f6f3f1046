"""Requests and answers of each dialect, by table: what a client sends, what is passed on, what it gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsv4_pd.run.front import dialects
from dsv4_pd.run.front.dialects.base import Asked, Facts
from dsv4_pd.run.front.errors import Refusal

SMG = Facts("m", "smg", None, 1)
CHAT, TEXT, NATIVE, MESSAGES, RESPONSES = (
    "/v1/chat/completions", "/v1/completions", "/generate", "/v1/messages", "/v1/responses")  # fmt: skip
HI = [{"role": "user", "content": "Hi"}]
BASES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": HI},
    TEXT: {"model": "m", "prompt": "Hi"},
    NATIVE: {"text": "Hi"},
    MESSAGES: {"model": "m", "messages": HI, "max_tokens": 8},
    RESPONSES: {"model": "m", "input": "Hi"},
}
EMPTY = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
THOUGHT = {"type": "thinking", "thinking": "x"}
FLAT_FORM = {"type": "json_schema", "name": "x", "schema": CITY}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY}}


def tool(name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


F, G = tool("f", parameters=CITY), tool("g", parameters=CITY)
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("g")]}}
COUNTED = {"stream_options": {"include_usage": True}}


def prepared(path: str, fields: dict[str, Any], facts: Facts = SMG) -> Asked:
    return dialects.prepare(path, {**BASES[path], **fields}, facts)


# path, what is sent beside the base, what of it is passed on beside the base (None: taken out)
REQUESTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "nothing to do": (CHAT, {"temperature": 0}, {"temperature": 0}),
    "no model": (CHAT, {"model": None}, {"model": "m"}),
    "an empty model": (TEXT, {"model": ""}, {"model": "m"}),
    "nulls": (CHAT, {"stop": None, "logprobs": None, "tools": None, "seed": None, "n": None}, {}),
    "nulls of completions": (TEXT, {"echo": None, "suffix": None, "best_of": None}, {}),
    "nulls of messages": (MESSAGES, {"system": None, "tools": None}, {}),
    "nulls of responses": (RESPONSES, {"instructions": None, "tools": None}, {}),
    "verbosity": (CHAT, {"verbosity": "low"}, {}),
    "a tool without parameters": (CHAT, {"tools": [tool()]}, {"tools": [tool(parameters=EMPTY)]}),
    "a tool with empty parameters": (CHAT, {"tools": [tool(parameters={})]}, {"tools": [tool(parameters=EMPTY)]}),
    "a tool with null parameters": (CHAT, {"tools": [tool(parameters=None)]}, {"tools": [tool(parameters=EMPTY)]}),
    "parameters without their type": (
        CHAT, {"tools": [tool(parameters={"properties": {}})]}, {"tools": [tool(parameters=EMPTY)]}),
    "parameters that say other things": (
        CHAT, {"tools": [tool(parameters={"additionalProperties": False}), tool(parameters={"required": []}),
                         tool(parameters={"type": None}), tool(parameters={"$defs": {}})]},
        {"tools": [tool(parameters={"additionalProperties": False, "type": "object"}),
                   tool(parameters={"required": [], "type": "object"}), tool(parameters={"type": "object"}),
                   tool(parameters={"$defs": {}, "type": "object"})]}),
    "a reference stays": (CHAT, {"tools": [tool(parameters={"$ref": "#/$defs/a", "$defs": {"a": CITY}})]},
                          {"tools": [tool(parameters={"$ref": "#/$defs/a", "$defs": {"a": CITY}})]}),
    "alternatives stay": (CHAT, {"tools": [tool(parameters={"anyOf": [CITY, EMPTY]})]},
                          {"tools": [tool(parameters={"anyOf": [CITY, EMPTY]})]}),
    "a schema of messages without its type": (
        MESSAGES, {"tools": [{"name": "f", "input_schema": {"additionalProperties": False}}]},
        {"tools": [{"name": "f", "input_schema": {"additionalProperties": False, "type": "object"}}]}),
    "parameters of another kind stay": (CHAT, {"tools": [tool(parameters={"type": "nosuch"})]},
                                        {"tools": [tool(parameters={"type": "nosuch"})]}),
    "a tool of messages with an empty schema": (
        MESSAGES, {"tools": [{"name": "f", "input_schema": {}}]}, {"tools": [{"name": "f", "input_schema": EMPTY}]}),
    "a server tool of messages stays": (
        MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    "a tool of responses without parameters": (
        RESPONSES, {"tools": [{"type": "function", "name": "f"}]},
        {"tools": [{"type": "function", "name": "f", "parameters": EMPTY}]}),
    "allowed tools": (CHAT, {"tools": [F, G], "tool_choice": ALLOWED}, {"tools": [G], "tool_choice": "required"}),
    "no allowed tool": (
        CHAT, {"tools": [F], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        {"tools": [], "tool_choice": "none"}),
    "a form beside tools": (CHAT, {"tools": [F], "response_format": FORM}, {"tools": [F], "response_format": FORM}),
    "functions": (CHAT, {"functions": [{"name": "f", "parameters": CITY}], "function_call": "auto"},
                  {"tools": [F], "tool_choice": "auto", "parallel_tool_calls": False}),
    "a named function": (
        CHAT, {"functions": [{"name": "f", "parameters": CITY}], "function_call": {"name": "f"}},
        {"tools": [F], "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": False}),
    "a past function call": (
        CHAT,
        {"messages": [*HI, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
                      {"role": "function", "name": "f", "content": "noon"}]},
        {"messages": [*HI, {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                      {"role": "tool", "tool_call_id": "call_1", "content": "noon"}]}),
    "enable_thinking": (CHAT, {"chat_template_kwargs": {"enable_thinking": True}},
                        {"chat_template_kwargs": {"thinking": True}}),
    "enable_thinking at the top": (CHAT, {"enable_thinking": False}, {"chat_template_kwargs": {"thinking": False}}),
    "thinking as a text": (CHAT, {"chat_template_kwargs": {"thinking": "false"}},
                           {"chat_template_kwargs": {"thinking": False}}),
    "DeepSeek's own thinking": (CHAT, {"thinking": {"type": "enabled"}}, {"chat_template_kwargs": {"thinking": True}}),
    "no thinking after all": (CHAT, {"thinking": {"type": "disabled"}, "reasoning_effort": "high"},
                              {"chat_template_kwargs": {"thinking": False}, "reasoning_effort": "none"}),
    "an effort among reasoning": (CHAT, {"reasoning": {"effort": "low", "exclude": True}, "reasoning_effort": "high"},
                                  {"reasoning_effort": "low"}),
    "an effort that is a number": (CHAT, {"reasoning": {"reasoning_effort": 0.5}}, {"reasoning_effort": 0.5}),
    "reasoning that is on": (CHAT, {"reasoning": {"enabled": True}}, {"chat_template_kwargs": {"thinking": True}}),
    "reasoning that is off": (CHAT, {"reasoning": {"enable": False, "effort": "high"}},
                              {"chat_template_kwargs": {"thinking": False}, "reasoning_effort": "none"}),
    "no thinking, whatever reasoning says": (
        CHAT, {"thinking": {"type": "disabled"}, "reasoning": {"effort": "high"}},
        {"chat_template_kwargs": {"thinking": False}, "reasoning_effort": "none"}),
    "reasoning that says nothing": (CHAT, {"reasoning": {}}, {}),
    "other arguments of the template": (CHAT, {"chat_template_kwargs": {"x": 1}}, {"chat_template_kwargs": {"x": 1}}),
    "thinking of responses": (RESPONSES, {"chat_template_kwargs": {"thinking": True}},
                              {"reasoning": {"effort": "high"}}),
    "an effort of responses stays": (RESPONSES, {"enable_thinking": True, "reasoning": {"effort": "low"}},
                                     {"reasoning": {"effort": "low"}}),
    "a thought comes back": (
        MESSAGES, {"messages": [*HI, {"role": "assistant", "content": [THOUGHT]}]},
        {"messages": [*HI, {"role": "assistant", "content": [{**THOUGHT, "signature": "unsigned"}]}]}),
    "a thought with a null": (
        MESSAGES, {"messages": [{"role": "assistant", "content": [{**THOUGHT, "signature": None}]}]},
        {"messages": [{"role": "assistant", "content": [{**THOUGHT, "signature": "unsigned"}]}]}),
    "a signed thought": (
        MESSAGES, {"messages": [{"role": "assistant", "content": [{**THOUGHT, "signature": "abc"}]}]},
        {"messages": [{"role": "assistant", "content": [{**THOUGHT, "signature": "abc"}]}]}),
    "a redacted thought": (
        MESSAGES, {"messages": [{"role": "assistant", "content": [
            {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "a"}]}]},
        {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]}),
    "a form beside tools of responses": (
        RESPONSES, {"tools": [{"type": "function", "name": "f", "parameters": CITY}], "text": {"format": FLAT_FORM}},
        {"tools": [{"type": "function", "name": "f", "parameters": CITY}], "text": {"format": FLAT_FORM}}),
    "fields that the router does not know": (RESPONSES, {"client_metadata": {"a": "b"}, "zzz": 1, "store": False},
                                             {"store": False}),
    "a stream is counted": (CHAT, {"stream": True}, {"stream": True, **COUNTED}),
    "a stream that counts": (CHAT, {"stream": True, **COUNTED}, {"stream": True, **COUNTED}),
    "a stream that counts not": (
        TEXT, {"stream": True, "stream_options": {"include_usage": False, "x": 1}},
        {"stream": True, "stream_options": {"include_usage": True, "x": 1}}),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_passed_on(name: str) -> None:
    path, sent, wanted = REQUESTS[name]
    original = json.dumps({**BASES[path], **sent})
    asked = prepared(path, sent)
    assert asked.body == {**BASES[path], **wanted}
    assert asked.changed == (asked.body != {**BASES[path], **sent})
    assert json.dumps({**BASES[path], **sent}) == original, "the client's own body is never touched"


REFUSED: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "unknown model": (CHAT, {"model": "x"}, 404, "The model 'x' does not exist here; this server has 'm'"),
    "unknown model of messages": (MESSAGES, {"model": "x"}, 404, "'x' does not exist"),
    "unknown model of responses": (RESPONSES, {"model": "x"}, 404, "'x' does not exist"),
    "a model that is a number": (TEXT, {"model": 3}, 400, "model: found 3"),
    "unknown verbosity": (CHAT, {"verbosity": "loud"}, 400, "verbosity: found 'loud'"),
    "a custom tool": (CHAT, {"tools": [{"type": "custom", "custom": {}}]}, 400, "tools[0].type: 'custom'"),
    "an allowed tool that is not there": (
        CHAT, {"tools": [F], "tool_choice": ALLOWED}, 400, "names tools that are not in tools: g"),
    "functions beside tools": (CHAT, {"functions": [{"name": "f"}], "tools": [F]}, 400, "functions: is not served"),
    "function_call alone": (CHAT, {"function_call": "auto"}, 400, "only allowed when functions"),
    "thinking of no kind": (CHAT, {"thinking": {"type": "maybe"}}, 400, "thinking.type: found 'maybe'"),
    "enable_thinking of no kind": (CHAT, {"enable_thinking": "maybe"}, 400, "enable_thinking: found 'maybe'"),
    "thinking of a list of kinds": (CHAT, {"thinking": {"type": ["x"]}}, 400, "thinking.type: found a list"),
    "thinking of an object": (CHAT, {"thinking": {"type": {}}}, 400, "thinking.type: found an object"),
    "thinking that is a text": (CHAT, {"thinking": "enabled"}, 400, "thinking: found 'enabled', expected an object"),
    "reasoning that is a text": (CHAT, {"reasoning": "high"}, 400, "reasoning: found 'high', expected an object"),
    "an effort that is a list": (CHAT, {"reasoning": {"effort": ["high"]}}, 400, "reasoning.effort: found a list"),
    "reasoning of responses that is a text": (
        RESPONSES, {"thinking": {"type": "enabled"}, "reasoning": "high"}, 400, "reasoning: found 'high'"),
    "reasoning of responses that is a number": (RESPONSES, {"reasoning": 5}, 400, "reasoning: found 5"),
    "an allowed tool of two names": (
        CHAT, {"tools": [F], "tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [{"type": "function", "name": ["f"]}]}}}, 400,
        "tool_choice.allowed_tools.tools[0]: found a list for its name"),
    "allowed tools that are none": (
        CHAT, {"tools": [F], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}}, 400,
        "tool_choice.allowed_tools.tools: found null, expected a list"),
    "allowed tools without tools to allow": (CHAT, {"tools": 5, "tool_choice": ALLOWED}, 400, "tools: found 5"),
    "tools that are texts": (RESPONSES, {"tools": ["f"]}, 400, "tools[0]: found 'f', expected an object"),
    "parameters that are a list": (CHAT, {"tools": [tool(parameters=[])]}, 400, "tools: parameters: found a list"),
    "parameters that are false": (CHAT, {"tools": [tool(parameters=False)]}, 400, "tools: parameters: found false"),
    "a past call without a name": (
        CHAT, {"messages": [{"role": "assistant", "function_call": {"arguments": "{}"}}]}, 400,
        "messages[0].function_call.name: found null"),
    "parameters of a prompt that are a text": (
        NATIVE, {"sampling_params": [{}, "x"]}, 400, "sampling_params: found 'x'"),
    "arguments that are a list": (CHAT, {"chat_template_kwargs": [1]}, 400, "chat_template_kwargs: found a list"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    path, sent, status, words = REFUSED[name]
    with pytest.raises(Refusal) as caught:
        prepared(path, sent)
    assert caught.value.status == status
    assert words in caught.value.message


def test_a_form_beside_tools_that_are_not_called_is_served() -> None:
    assert (
        prepared(CHAT, {"tools": [F], "response_format": FORM, "tool_choice": "none"}).body["response_format"] == FORM
    )


@pytest.mark.parametrize(
    ("path", "sent", "wanted"),
    [
        (CHAT, {"n": 3}, 3),
        (CHAT, {"n": None}, 1),
        (TEXT, {"prompt": ["a", "b"], "n": 2}, 4),
        (TEXT, {"prompt": [1, 2, 3]}, 1),
        (TEXT, {"prompt": [[1], [2]]}, 2),
        (NATIVE, {"text": ["a", "b"]}, 2),
        (NATIVE, {"text": ["a", "b"], "sampling_params": [{"n": 3}, {"n": 3}]}, 6),
        (NATIVE, {"input_ids": [[1], [2]], "sampling_params": {"n": 2}}, 4),
        (MESSAGES, {}, 1),
    ],
)
def test_slots_are_answers(path: str, sent: dict[str, Any], wanted: int) -> None:
    assert prepared(path, sent).slots == wanted


@pytest.mark.parametrize(
    ("path", "sent", "wanted"),
    [
        (CHAT, {"max_tokens": 99}, {"max_tokens": 10}),
        (CHAT, {"max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        (CHAT, {}, {"max_completion_tokens": 10}),
        (TEXT, {}, {"max_tokens": 10}),
        (MESSAGES, {"max_tokens": 99}, {"max_tokens": 10}),
        (RESPONSES, {"max_output_tokens": 99}, {"max_output_tokens": 10}),
        (NATIVE, {"sampling_params": {"max_new_tokens": 99, "n": 2}},
         {"sampling_params": {"max_new_tokens": 10, "n": 2}}),
        (NATIVE, {}, {"sampling_params": {"max_new_tokens": 10}}),
        (NATIVE, {"sampling_params": [{}, {"max_new_tokens": 99}]},
         {"sampling_params": [{"max_new_tokens": 10}, {"max_new_tokens": 10}]}),
    ],
)  # fmt: skip
def test_the_operators_limit_of_output(path: str, sent: dict[str, Any], wanted: dict[str, Any]) -> None:
    body = prepared(path, sent, Facts("m", "smg", 10, 1)).body
    assert {name: body.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("path", "wanted"), [(TEXT, {"max_tokens": 16}), (NATIVE, {"sampling_params": {"max_new_tokens": 128}})]
)
def test_a_limit_makes_no_default_longer(path: str, wanted: dict[str, Any]) -> None:
    body = prepared(path, {}, Facts("m", "smg", 4096, 1)).body
    assert {name: body.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("wrong", [99.0, "99", True, [99], {}])
@pytest.mark.parametrize(("path", "name"), [(CHAT, "max_tokens"), (CHAT, "max_completion_tokens"), (TEXT, "max_tokens"),
                                            (MESSAGES, "max_tokens"), (RESPONSES, "max_output_tokens")])  # fmt: skip
def test_a_limit_is_not_passed_by_another_kind_of_number(path: str, name: str, wrong: Any) -> None:
    with pytest.raises(Refusal, match="expected a whole number"):
        prepared(path, {name: wrong}, Facts("m", "smg", 10, 1))


def test_what_is_not_limited_passes_bytes_for_bytes() -> None:
    assert not prepared(NATIVE, {"sampling_params": {"n": 1}}).changed
    assert not prepared(MESSAGES, {}).changed


def test_responses_choose_among_the_allowed_tools_and_keep_no_conversation() -> None:
    both = {"input": "x", "tools": [{"type": "function", "name": name} for name in ("f", "g")]}
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}
    body = prepared(RESPONSES, {**both, "tool_choice": choice}).body
    assert body["tool_choice"] == "required" and [tool["name"] for tool in body["tools"]] == ["g"]
    with pytest.raises(Refusal, match="conversation"):
        prepared(RESPONSES, {"input": "x", "conversation": "conv_x"})


def test_best_of_one_is_not_passed_on() -> None:
    facts = Facts("m", "smg", None, 1)
    plain = {"model": "m", "prompt": "x", "stream": True}
    without = dialects.prepare("/v1/completions", plain, facts).body
    assert dialects.prepare("/v1/completions", {**plain, "best_of": 1}, facts).body == without
    assert dialects.prepare("/v1/completions", {**plain, "best_of": 2}, facts).body["best_of"] == 2
