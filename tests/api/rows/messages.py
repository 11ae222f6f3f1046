"""/v1/messages, Anthropic's API."""

from __future__ import annotations

from typing import Any

from api import checks_dialects as more
from api.case import LONG, MODEL, messages, user
from api.rows.tools import TWO
from api.schemas import CHOICE, CITY

TOOL = {"name": "get_weather", "description": "Get the weather of a city.", "input_schema": CITY}
THINK: dict[str, Any] = {"max_tokens": 1100, "thinking": {"type": "enabled", "budget_tokens": 1024}}
THOUGHTFUL = more.message("thinking", "text", stop="end_turn")
ONE: dict[str, Any] = {
    "messages": TWO,
    "tools": [TOOL],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
}
USE = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
ROUND = [
    *user("What is the weather in Paris?"),
    {"role": "assistant", "content": [USE]},
    *user([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]),
]
CACHED = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]


def said(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """A conversation in which the assistant's earlier turn has these blocks."""
    turn = {"role": "assistant", "content": [*blocks, {"type": "text", "text": "I am."}]}
    return [*user("Who are you?"), turn, *user("Hi")]


MESSAGE_ROWS = (
    messages("plain", check=more.message(stop="end_turn")),
    messages("`stream`", stream=True, check=more.message(stop="end_turn")),
    messages("`max_tokens` reached", max_tokens=4, check=more.message(stop="max_tokens")),
    messages("`max_tokens` absent", 400, max_tokens=None),
    messages("`max_tokens: 0`", 400, max_tokens=0),
    messages("`max_tokens` beyond the context", 400, max_tokens=100000),
    messages("`max_tokens` beyond the context, streaming", 400, max_tokens=100000, stream=True),
    messages("input too long", 400, messages=user(LONG)),
    messages("input too long, streaming", messages=user(LONG), stream=True, check=more.error_in_stream),
    messages("`system`, a text", system="Be brief.", check=more.message()),
    messages("`system`, blocks with `cache_control`", system=CACHED, check=more.message()),
    messages("`stop_sequences`", stop_sequences=["demo"],
             check=more.message("text", stop="stop_sequence", sequence="demo")),
    messages("`stop_sequences`, streaming", stop_sequences=["demo"], stream=True,
             check=more.message("text", stop="stop_sequence", sequence="demo")),
    messages("`temperature`, `top_p`, `top_k`", temperature=0.5, top_p=0.9, top_k=20, check=more.message()),
    messages("`metadata`, `service_tier`", metadata={"user_id": "me"}, service_tier="auto", check=more.message()),
    messages("`context_management`", context_management={"edits": []}, check=more.message()),
    messages("an unknown field", zzz=1, check=more.message()),
    messages("nulls", system=None, tools=None, tool_choice=None, stop_sequences=None, check=more.message()),
    messages("`thinking: {type: enabled}`", check=THOUGHTFUL, **THINK),
    messages("`thinking: {type: enabled}`, streaming", stream=True, check=THOUGHTFUL, **THINK),
    messages("`thinking: {type: adaptive}`", max_tokens=1100, thinking={"type": "adaptive"}, check=THOUGHTFUL),
    messages("`thinking: {type: disabled}`", thinking={"type": "disabled"}, check=more.message()),
    messages("`output_config: {effort: high}`", output_config={"effort": "high"}, check=more.message()),
    messages("`output_config.format`", output_config={"format": {"type": "json_schema", "schema": CHOICE}},
             max_tokens=200, messages=user("Hi"), check=more.message_formed),
    messages("a `thinking` block comes back without a signature", check=more.message(),
             messages=said({"type": "thinking", "thinking": "x"})),
    messages("a `thinking` block comes back with `signature: null`", check=more.message(),
             messages=said({"type": "thinking", "thinking": "x", "signature": None})),
    messages("a `thinking` block comes back as it was sent", check=more.message(),
             messages=said({"type": "thinking", "thinking": "x", "signature": "unsigned"})),
    messages("a `redacted_thinking` block comes back", check=more.message(),
             messages=said({"type": "redacted_thinking", "data": "x"})),
    messages("`tools`", messages=TWO, tools=[TOOL], check=more.tools_used("get_weather")),
    messages("`tools`, streaming", messages=TWO, tools=[TOOL], stream=True, max_tokens=100,
             check=more.tools_used("get_weather")),
    messages("`tool_choice: {type: any}`", messages=TWO, tools=[TOOL], tool_choice={"type": "any"}, max_tokens=100,
             check=more.tools_used("get_weather")),
    messages("`tool_choice: {type: tool}`", messages=TWO, tools=[TOOL], max_tokens=100,
             tool_choice={"type": "tool", "name": "get_weather"}, check=more.tools_used("get_weather")),
    messages("`tool_choice: {type: none}`", messages=TWO, tools=[TOOL], tool_choice={"type": "none"},
             check=more.message()),
    messages("`disable_parallel_tool_use`", check=more.message("tool_use", stop="tool_use"), **ONE),
    messages("`disable_parallel_tool_use`, streaming", stream=True, check=more.message("tool_use", stop="tool_use"),
             **ONE),
    messages("a `tool_result`", messages=ROUND, tools=[TOOL], check=more.message()),
    messages("a tool with `input_schema: {}`", tools=[{"name": "now", "input_schema": {}}], check=more.message()),
    messages("a server tool (`web_search_20250305`)", tools=[{"type": "web_search_20250305", "name": "web_search"}],
             check=more.message()),
    messages("an image", 400, messages=user([{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "AA=="}}])),
    messages("unknown model", 404, model="nosuch"),
    messages("no messages", 400, messages=[]),
)  # fmt: skip
HELLO = {"model": MODEL, "max_tokens": 8, "messages": user("hi")}
