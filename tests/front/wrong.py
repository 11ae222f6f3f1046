"""A request of each route with every field that its dialect reads, and values of wrong kinds for each of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from front.test_dialects import CHAT, MESSAGES, NATIVE, RESPONSES, TEXT

Path = tuple[str | int, ...]
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
_FUNCTION = {"name": "f", "parameters": _CITY}
_CALL = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
_HISTORY = [{"role": "user", "content": "Hi"}, _CALL, {"role": "function", "name": "f", "content": "noon"}]
_COMMON = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "n": 2}
_SWITCHES = {
    "thinking": {"type": "enabled"}, "enable_thinking": True, "reasoning": {"effort": "high", "enabled": True},
    "chat_template_kwargs": {"thinking": True, "enable_thinking": True},
}  # fmt: skip
_ALLOWED = {"type": "allowed_tools", "allowed_tools": {
    "mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}}  # fmt: skip
_FLAT = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
_TOOLS = [{"type": "function", "function": _FUNCTION}]
_CHAT = {**_COMMON, "messages": _HISTORY, "max_completion_tokens": 5, "max_tokens": 5}
_THOUGHTS = [{"type": "thinking", "thinking": "x", "signature": "s"}, {"type": "text", "text": "a"},
             {"type": "redacted_thinking", "data": "x"}]  # fmt: skip

WHOLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (CHAT, {**_CHAT, **_SWITCHES, "tools": _TOOLS, "tool_choice": _ALLOWED, "verbosity": "low",
            "parallel_tool_calls": False, "response_format": {"type": "json_object"}}),
    (CHAT, {**_CHAT, "tools": _TOOLS, "tool_choice": _FLAT, "reasoning_effort": "high"}),
    (CHAT, {**_CHAT, "functions": [_FUNCTION], "function_call": {"name": "f"}}),
    (TEXT, {**_COMMON, "prompt": ["a", "b"], "max_tokens": 5, "best_of": 2}),
    (TEXT, {**_COMMON, "prompt": [[1, 2], [3]], "max_tokens": 5}),
    (NATIVE, {"text": ["a"], "stream": True, "sampling_params": {"n": 2, "max_new_tokens": 5}}),
    (NATIVE, {"input_ids": [[1], [2]], "sampling_params": [{"n": 2, "max_new_tokens": 5}, {"n": 2}]}),
    (MESSAGES, {"model": "m", "max_tokens": 5, "stream": True, "messages": [{"role": "user", "content": _THOUGHTS}],
                "tools": [{"name": "f", "input_schema": _CITY}, {"type": "custom", "name": "g", "input_schema": _CITY}],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}, "thinking": {"type": "adaptive"}}),
    (RESPONSES, {"model": "m", "input": "Hi", "stream": True, "max_output_tokens": 5, "parallel_tool_calls": False,
                 "tools": [{"type": "function", **_FUNCTION}], "tool_choice": "auto", **_SWITCHES}),
    (RESPONSES, {"model": "m", "input": "Hi", "text": {"format": {"type": "json_schema", "schema": _CITY}}}),
)  # fmt: skip


def _deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


# A value of each kind, empty and not; "x" stands for a text that is no name of anything.
WRONG: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**40, 0.5, "", "x", [], ["x"], [[]], [{}], [None], [1], {}, {"x": 1}, {"type": []},
    {"type": {}}, {"type": ["x"]}, {"name": ["x"]}, {"name": {}}, [{"name": []}], [{"type": {}}],
    _deep(260), _deep(900),
)  # fmt: skip


def paths(found: Any, at: Path = ()) -> Iterator[Path]:
    """Where every value of a request stands."""
    items: Any = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, value in items:
        yield (*at, name)
        yield from paths(value, (*at, name))


def replaced(body: Any, path: Path, value: Any) -> Any:
    """A copy with another value there."""
    found = copy.deepcopy(body)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return found


def at(body: Any, path: Path) -> Any:
    """The value there; Ellipsis where there is none."""
    for name in path:
        try:
            body = body[name]
        except (KeyError, IndexError, TypeError):
            return ...
    return body
