"""Tools in /v1/chat/completions."""

from __future__ import annotations

from typing import Any

from api import checks
from api import checks_dialects as more
from api.case import chat, user
from api.schemas import ADD, CHOICE, STRICT_CITY, WEATHER, function, needs, schema

TWO = user("What is the weather in Paris and in Tokyo?")
PARIS = '{"city": "Paris"}'
TOOL = function(**WEATHER)
STRICT = function(**{**WEATHER, "strict": True, "parameters": STRICT_CITY})
NOW = function(name="now", parameters={"type": "object", "properties": {}})
FORM = schema(CHOICE)
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOL]}}
RESULT = [
    *TWO,
    {"role": "assistant", "content": None, "function_call": {"name": "get_weather", "arguments": PARIS}},
    {"role": "function", "name": "get_weather", "content": "sunny"},
]
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": PARIS}}
ROUND = [
    *TWO,
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
]
# The demo's model answers this with two calls, of which 60 tokens hold one and a half.
ASKED: dict[str, Any] = {"messages": TWO, "max_tokens": 60}

TOOLS = (
    chat("`tools`, `tool_choice` absent", tools=[TOOL], check=more.called("get_weather", PARIS), **ASKED),
    chat("`tools`, streaming", tools=[TOOL], stream=True, check=more.called("get_weather", PARIS), **ASKED),
    chat("`tools` that the answer does not need", tools=[ADD]),
    chat("`tools`, `tool_choice: none`", tools=[TOOL], tool_choice="none", check=more.spoken, **ASKED),
    chat("`tools`, `tool_choice: auto`, streaming", tools=[ADD], tool_choice="auto", stream=True,
         check=checks.streamed()),
    chat("`tools`, `tool_choice: required`", tools=[ADD], tool_choice="required", max_tokens=64,
         check=more.called("add")),
    chat("`tools`, a named `tool_choice`", tools=[ADD], max_tokens=64, check=more.called("add"),
         tool_choice={"type": "function", "function": {"name": "add"}}),
    chat("`tool_choice: required` without tools", 400, tool_choice="required"),
    chat("`tool_choice` that names a tool which is not there", 400, tools=[TOOL],
         tool_choice={"type": "function", "function": {"name": "nosuch"}}),
    chat("`tool_choice: allowed_tools`", tools=[NOW, TOOL], tool_choice=ALLOWED,
         check=more.called("get_weather", PARIS), **ASKED),
    chat("`tool_choice: allowed_tools`, streaming", tools=[NOW, TOOL], tool_choice=ALLOWED, stream=True,
         check=more.called("get_weather", PARIS), **ASKED),
    chat("`tool_choice: allowed_tools` that names a tool which is not there", 400, tools=[NOW], tool_choice=ALLOWED),
    chat("`parallel_tool_calls: false`", tools=[TOOL], parallel_tool_calls=False,
         check=more.called("get_weather", PARIS, 1), **ASKED),
    chat("`parallel_tool_calls: false`, streaming", tools=[TOOL], parallel_tool_calls=False, stream=True,
         check=more.called("get_weather", PARIS, 1), **ASKED),
    chat("a tool's result", tools=[TOOL], messages=ROUND, max_tokens=60),
    chat("a tool without `parameters`", tools=[function(name="now")]),
    chat("a tool with `parameters: null`", tools=[function(name="now", parameters=None)]),
    chat("a tool with `parameters: {}`", tools=[function(name="now", parameters={})]),
    chat("a tool whose `parameters` have no `type`", tools=[
        function(name="now", parameters={"additionalProperties": False})]),
    chat("a tool with a bad schema", 400, tools=[function(name="add", parameters={"type": "nosuch"})]),
    chat("a tool that needs itself, `tool_choice: required`", 400, tool_choice="required",
         tools=[function(name="add", parameters=needs({"$ref": "#"}))]),
    chat("`strict: true`", tools=[STRICT], check=more.called("get_weather", PARIS), **ASKED),
    chat("a strict tool beside one that is not", tools=[STRICT, NOW], check=more.called("get_weather", PARIS),
         **ASKED),
    chat("`tools` and `response_format`: a call", tools=[TOOL], response_format=FORM,
         check=more.called("get_weather", PARIS), **ASKED),
    chat("`tools` and `response_format`: a call, streaming", tools=[TOOL], response_format=FORM, stream=True,
         check=more.called("get_weather", PARIS), **ASKED),
    chat("a strict tool and `response_format`: a call", tools=[STRICT], response_format=FORM,
         check=more.called("get_weather", PARIS), **ASKED),
    chat("`tools`, `tool_choice: none` and `response_format`", tools=[TOOL], tool_choice="none",
         response_format=FORM, check=more.formed, max_tokens=200, messages=user("Hi")),
    chat("`functions`, `function_call` absent", functions=[WEATHER], check=more.function_called("get_weather"),
         **ASKED),
    chat("`functions`, `function_call: auto`, streaming", functions=[WEATHER], function_call="auto", stream=True,
         check=more.function_called("get_weather"), **ASKED),
    chat("`functions`, a named `function_call`", functions=[WEATHER], function_call={"name": "get_weather"},
         check=more.function_called("get_weather"), **ASKED),
    chat("`functions`, `function_call: none`", functions=[WEATHER], function_call="none", check=more.spoken, **ASKED),
    chat("a function's result", functions=[WEATHER], messages=RESULT, max_tokens=60),
    chat("`functions` beside `tools`", 400, functions=[WEATHER], tools=[TOOL]),
    chat("`function_call` without `functions`", 400, function_call="auto"),
    chat("a tool of type `custom`", 400, tools=[{"type": "custom", "custom": {"name": "x"}}]),
    chat("a tool of type `web_search`", 400, tools=[{"type": "web_search"}]),
)  # fmt: skip
