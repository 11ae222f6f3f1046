"""An answer put together as a client does it, whether it came whole or as a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from api.client import Answer


@dataclass(slots=True)
class Chat:
    """A chat's first choice. `calls`: (name, arguments); `function`: the same in the form before tools."""

    content: str = ""
    thoughts: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    function: tuple[str, str] | None = None
    finish: str | None = None


def streamed(answer: Answer) -> bool:
    """Whether it came as a stream."""
    return answer.headers.get("content-type", "").startswith("text/event-stream")


def events(answer: Answer) -> list[dict[str, Any]]:
    """The objects of a stream of any dialect."""
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]


def chat(answer: Answer) -> Chat:
    """The first choice of a chat."""
    if not streamed(answer):
        choice = answer.json()["choices"][0]
        return _choice(choice, choice["message"])
    merged: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": {}}
    finish = None
    for chunk in answer.chunks():
        for choice in chunk["choices"]:
            if choice["index"] == 0:
                _add(merged, choice["delta"])
                finish = choice["finish_reason"] or finish
    merged["tool_calls"] = [call for _, call in sorted(merged["tool_calls"].items())]
    return _choice({"finish_reason": finish}, merged)


def _add(merged: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("content", "reasoning_content"):
        merged[name] += delta.get(name) or ""
    for call in delta.get("tool_calls") or ():
        function = merged["tool_calls"].setdefault(call["index"], {"function": {"name": "", "arguments": ""}})
        _add_function(function["function"], call["function"])
    if delta.get("function_call"):
        _add_function(merged.setdefault("function_call", {"name": "", "arguments": ""}), delta["function_call"])


def _add_function(merged: dict[str, str], delta: dict[str, str]) -> None:
    for name in ("name", "arguments"):
        merged[name] += delta.get(name) or ""


def _choice(choice: dict[str, Any], message: dict[str, Any]) -> Chat:
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    function = message.get("function_call")
    return Chat(
        message.get("content") or "",
        message.get("reasoning_content") or "",
        calls,
        (function["name"], function["arguments"]) if function else None,
        choice["finish_reason"],
    )


def message(answer: Answer) -> dict[str, Any]:
    """Anthropic's message; of a stream, its blocks hold the texts of their deltas."""
    if not streamed(answer):
        whole: dict[str, Any] = answer.json()
        return whole
    found: dict[str, Any] = {}
    for event in events(answer):
        if event["type"] == "message_start":
            found = {**event["message"], "content": []}
        elif event["type"] == "content_block_start":
            found["content"].append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            _delta(found["content"][event["index"]], event["delta"])
        elif event["type"] == "message_delta":
            found.update(event["delta"])
    for block in found["content"]:
        if block["type"] == "tool_use":
            block["input"] = _input(block.pop("partial_json", ""))
    return found


def _input(text: str) -> Any:
    """A call's input; one that the limit of tokens cut is empty, as in an answer that comes whole.

    >>> _input('{"city": "Paris"}'), _input('{"city": "Par')
    ({'city': 'Paris'}, {})
    """
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("text", "thinking", "partial_json", "signature"):
        if name in delta:
            block[name] = block.get(name, "") + delta[name]


def response(answer: Answer) -> dict[str, Any]:
    """A response; of a stream, the one that its last event holds."""
    found: dict[str, Any] = events(answer)[-1]["response"] if streamed(answer) else answer.json()
    return found
