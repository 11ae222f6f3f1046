"""The form of streams: each event, and the order of all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from api import published
from api.client import Answer

# Anthropic publishes no schema under a licence. These are the fields that its clients' types require.
_TEXT = {"type": "string"}
_BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"text": _TEXT},
    "thinking": {"thinking": _TEXT, "signature": _TEXT},
    "tool_use": {"id": _TEXT, "name": _TEXT, "input": {"type": "object"}},
}
_USAGE = {
    "type": "object",
    "required": ["input_tokens", "output_tokens"],
    "properties": {"input_tokens": {"type": "integer"}, "output_tokens": {"type": "integer"}},
}
_REASONS = ["end_turn", "max_tokens", "stop_sequence", "tool_use"]
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "type", "role", "content", "model", "stop_reason", "stop_sequence", "usage"],
    "properties": {
        "id": _TEXT, "type": {"const": "message"}, "role": {"const": "assistant"}, "model": _TEXT,
        "content": {"type": "array"}, "stop_reason": {"enum": [*_REASONS, None]},
        "stop_sequence": {"type": ["string", "null"]}, "usage": _USAGE,
    },
}  # fmt: skip
_ERROR: dict[str, Any] = {
    "required": ["type", "error"],
    "properties": {"error": {"required": ["type", "message"], "properties": {"type": _TEXT, "message": _TEXT}}},
}
_EVENTS = {
    "response.output_text.delta": "ResponseTextDeltaEvent",
    "response.output_text.done": "ResponseTextDoneEvent",
    "error": "ResponseErrorEvent",
}
_ENDS = {"response.completed", "response.incomplete", "response.failed"}


def named(answer: Answer) -> list[tuple[str, Any]]:
    """(name, data) of each event of a stream; "" where it has no name."""
    found, name = [], ""
    for line in answer.text.splitlines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            found.append((name, json.loads(line[6:]) if line != "data: [DONE]" else None))
            name = ""
    return found


def chunks(component: str) -> Callable[[Answer], list[str]]:
    """Chats and completions: each chunk by the schema, [DONE] at the end, no names."""

    def found(answer: Answer) -> list[str]:
        events = named(answer)
        wrong = [] if events and events[-1][1] is None else ["no [DONE] at the end"]
        wrong += [f"an event with the name {name!r}" for name, _ in events if name]
        faults = [fault for _, data in events if data is not None for fault in published.faults(component, data)]
        return wrong + [f"chunk of {fault}" for fault in faults]

    return found


def native(answer: Answer) -> list[str]:
    """/generate has no schema but the engine's."""
    return [] if named(answer)[-1][1] is None else ["no [DONE] at the end"]


def responses(answer: Answer) -> list[str]:
    """Each event by its component, named as its type says, numbered without a gap, from `created` to an end."""
    events = [(name, data) for name, data in named(answer) if data is not None]
    wrong = [f"the event {name!r} has the type {data['type']!r}" for name, data in events if name != data["type"]]
    if events[-1][0] == "error" and "response.failed" in dict(events):
        events.pop()  # the front's own, after the servers' failure
    numbers = [data.get("sequence_number") for _, data in events]
    if numbers != list(range(len(numbers))):
        wrong.append(f"the events have the numbers {numbers[:50]}")
    if events[0][0] != "response.created" or events[-1][0] not in _ENDS:
        wrong.append(f"the stream goes from {events[0][0]} to {events[-1][0]}")
    return wrong + [fault for _, data in events for fault in published.faults(_component(data["type"]), data)]


def _component(kind: str) -> str:
    """The component of an event.

    >>> _component("response.function_call_arguments.delta")
    'ResponseFunctionCallArgumentsDeltaEvent'
    """
    words = kind.replace(".", "_").split("_")
    return _EVENTS.get(kind) or "".join(word.capitalize() for word in words) + "Event"


def message(body: dict[str, Any], *, begun: bool = False) -> list[str]:
    """Anthropic's message. `begun`: of a stream, without its blocks and its end."""
    wrong = _against("message", _MESSAGE, body)
    if not begun:
        wrong += [] if body.get("stop_reason") else ["message.stop_reason: null at the end"]
    for block in body.get("content") or ():
        wrong += _block(block)
    return wrong


def _block(block: dict[str, Any]) -> list[str]:
    fields = _BLOCKS.get(block.get("type", ""))
    if fields is None:
        return [f"a block of type {block.get('type')!r}"]
    return _against(block["type"], {"properties": fields, "required": list(fields)}, block)


def _against(name: str, schema: dict[str, Any], found: Any) -> list[str]:
    return [f"{name}: {error.message[:200]}" for error in Draft202012Validator(schema).iter_errors(found)]


def messages(answer: Answer) -> list[str]:
    """Anthropic's stream: message_start, the blocks one after the other from 0 on, message_delta, message_stop."""
    events = [(name, data) for name, data in named(answer) if data["type"] != "ping"]
    wrong = [f"the event {name!r} has the type {data['type']!r}" for name, data in events if name != data["type"]]
    kinds = [data["type"] for _, data in events]
    if "error" in kinds:  # known when the stream had begun
        return wrong + _against("error", _ERROR, events[kinds.index("error")][1])
    if kinds[0] != "message_start" or kinds[-2:] != ["message_delta", "message_stop"]:
        return [*wrong, f"the stream goes from {kinds[:1]} to {kinds[-2:]}"]
    wrong += message(events[0][1]["message"], begun=True)
    end = events[-2][1]
    if end["delta"].get("stop_reason") not in _REASONS or "stop_sequence" not in end["delta"]:
        wrong.append(f"message_delta: {end['delta']}")
    wrong += _against("message_delta.usage", {"type": "object", "required": ["output_tokens"]}, end.get("usage"))
    return wrong + _blocks([data for _, data in events[1:-2]])


def _blocks(events: list[dict[str, Any]]) -> list[str]:
    """Clients index the list of blocks by these numbers: a gap is an exception there."""
    wrong, at, is_open = [], -1, False
    for event in events:
        begins, ends = event["type"] == "content_block_start", event["type"] == "content_block_stop"
        at += begins
        if begins == is_open or event.get("index") != at:
            wrong.append(f"{event['type']} of block {event.get('index')}, expected block {at}")
        if begins:
            wrong += _block(event["content_block"])
        is_open = not ends
    return wrong + (["a block that does not end"] if is_open else [])
