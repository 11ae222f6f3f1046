"""/v1/responses."""

from __future__ import annotations

from typing import Any

from api import checks_dialects as more
from api.case import LONG, responses, user
from api.rows.tools import PARIS
from api.schemas import CHOICE, STRICT_CITY, WEATHER

ASKED = "What is the weather in Paris and in Tokyo?"
TOOL = {"type": "function", **WEATHER, "strict": False}
STRICT = {"type": "function", **WEATHER, "parameters": STRICT_CITY, "strict": True}
NOW = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}}, "strict": False}
FORM = {"format": {"type": "json_schema", "name": "x", "schema": CHOICE}}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}
THOUGHTFUL = more.response("reasoning", "message", words="served, thoughts in a `reasoning` item", status="completed")
PLAIN = more.response(status="completed")


def text(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


HI = text("user", "Hi")
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": PARIS}
ROUND = [text("user", ASKED), CALL, {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}]
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}

RESPONSE_ROWS = (
    responses("plain", check=PLAIN),
    responses("`stream`", stream=True, check=PLAIN),
    responses("`max_output_tokens` reached", max_output_tokens=4, check=more.response(status="incomplete")),
    responses("`max_output_tokens: 0`", 400, max_output_tokens=0),
    responses("`max_output_tokens` beyond the context", 400, max_output_tokens=100000),
    responses("`max_output_tokens` beyond the context, streaming", max_output_tokens=100000, stream=True,
              check=more.error_in_stream),
    responses("input too long", 400, input=LONG),
    responses("input too long, streaming", input=LONG, stream=True, check=more.error_in_stream),
    responses("`input` as messages", input=user("Who are you?"), check=PLAIN),
    responses("`input` with an earlier answer", input=[HI, text("assistant", "Hello!"), HI], check=PLAIN),
    responses("`input` with the role `developer`", input=[text("developer", "Be brief."), HI], check=PLAIN),
    responses("`instructions`", instructions="Be brief.", check=more.response(instructions="Be brief.")),
    responses("`temperature`, `top_p`", temperature=0.5, top_p=0.9, check=more.response()),
    responses("`metadata`", metadata={"a": "b"}, check=more.response(metadata={"a": "b"})),
    responses("`user`, `service_tier`, `safety_identifier`, `prompt_cache_key`, `truncation: disabled`", check=PLAIN,
              user="me", service_tier="auto", safety_identifier="u", prompt_cache_key="x", truncation="disabled"),
    responses("`text.verbosity`", text={"verbosity": "low"}, check=PLAIN),
    responses("`client_metadata` and other unknown fields", client_metadata={"a": "b"}, zzz=1, check=PLAIN),
    responses("nulls", instructions=None, tools=None, text=None, metadata=None, reasoning=None, check=PLAIN),
    responses("`reasoning: {effort: high}`", reasoning={"effort": "high"}, max_output_tokens=300, check=THOUGHTFUL),
    responses("`reasoning: {effort: high}`, streaming", reasoning={"effort": "high"}, max_output_tokens=300,
              stream=True, check=THOUGHTFUL),
    responses("`reasoning: {summary: auto}`", reasoning={"summary": "auto"}, max_output_tokens=300, check=THOUGHTFUL),
    responses("`chat_template_kwargs.thinking: true`", chat_template_kwargs={"thinking": True},
              max_output_tokens=300, check=THOUGHTFUL),
    responses("`include: [reasoning.encrypted_content]`", include=["reasoning.encrypted_content"], check=PLAIN),
    responses("a `reasoning` item comes back", input=[HI, THOUGHT, text("assistant", "x"), HI], check=PLAIN),
    responses("`text.format: json_schema`", text=FORM, max_output_tokens=300, input="Hi",
              check=more.response_formed),
    responses("`text.format: json_schema` beside `tools`: a call", text=FORM, tools=[TOOL], input=ASKED,
              max_output_tokens=100, check=more.function_calls("get_weather")),
    responses("`text.format: json_schema` beside `tools`: a call, streaming", text=FORM, tools=[TOOL], input=ASKED,
              max_output_tokens=100, stream=True, check=more.function_calls("get_weather")),
    responses("`text.format: json_schema` beside a strict tool", text=FORM, tools=[STRICT], input=ASKED,
              max_output_tokens=100, check=more.function_calls("get_weather")),
    responses("`text.format: json_schema`, `tools` and `tool_choice: none`", text=FORM, tools=[TOOL], input="Hi",
              max_output_tokens=300, tool_choice="none", check=more.response_formed),
    responses("`tools`", input=ASKED, tools=[TOOL], check=more.function_calls("get_weather")),
    responses("`tools`, streaming", input=ASKED, tools=[TOOL], stream=True, max_output_tokens=100,
              check=more.function_calls("get_weather")),
    responses("`tool_choice: required`", input=ASKED, tools=[TOOL], tool_choice="required", max_output_tokens=100,
              check=more.function_calls("get_weather")),
    responses("`tool_choice: none`", input=ASKED, tools=[TOOL], tool_choice="none", check=more.response()),
    responses("a named `tool_choice`", input=ASKED, tools=[NOW, TOOL], max_output_tokens=100,
              tool_choice={"type": "function", "name": "get_weather"}, check=more.function_calls("get_weather")),
    responses("`tool_choice: allowed_tools`", input=ASKED, tools=[NOW, TOOL], tool_choice=ALLOWED,
              max_output_tokens=100, check=more.function_calls("get_weather")),
    responses("`tool_choice: allowed_tools` that names a tool which is not there", 400, tools=[NOW],
              tool_choice=ALLOWED),
    responses("`parallel_tool_calls: false`", input=ASKED, tools=[TOOL], parallel_tool_calls=False,
              check=more.function_calls("get_weather", 1)),
    responses("`parallel_tool_calls: false`, streaming", input=ASKED, tools=[TOOL], parallel_tool_calls=False,
              stream=True, check=more.function_calls("get_weather", 1)),
    responses("a `function_call` and its output", input=ROUND, tools=[TOOL], check=PLAIN),
    responses("a tool without `parameters`", tools=[{"type": "function", "name": "now"}], check=PLAIN),
    responses("a strict tool beside one that is not", input=ASKED, tools=[STRICT, NOW],
              check=more.function_calls("get_weather")),
    responses("a tool of type `custom`", tools=[{"type": "custom", "name": "patch", "format": GRAMMAR}], check=PLAIN),
    responses("a tool of type `namespace`", tools=[{
        "type": "namespace", "name": "n", "description": "x", "tools": [NOW]}], check=PLAIN),
    responses("a tool of type `web_search`", tools=[{"type": "web_search"}], check=PLAIN),
    responses("a tool of type `local_shell`", 400, tools=[{"type": "local_shell"}]),
    responses("a tool of type `image_generation`", tools=[{"type": "image_generation"}], check=PLAIN),
    responses("`store: false`", store=False, check=PLAIN),
    responses("`store: true`", store=True, check=more.response(words="served, nothing is stored")),
    responses("`previous_response_id`", 400, previous_response_id="resp_x"),
    responses("`background: true`", 400, background=True),
    responses("`conversation`", 400, conversation="conv_x"),
    responses("`top_logprobs`", top_logprobs=2, check=PLAIN),
    responses("unknown model", 404, model="nosuch"),
    responses("no `input`", 400, input=None),
)  # fmt: skip
