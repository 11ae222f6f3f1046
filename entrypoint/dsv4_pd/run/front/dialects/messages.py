"""/v1/messages, Anthropic's API: what its clients send back and expect. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from dsv4_pd.run.front import sse
from dsv4_pd.run.front.dialects import tools
from dsv4_pd.run.front.dialects.base import (
    Asked,
    Body,
    Events,
    Facts,
    cap,
    closed_up,
    drop_nulls,
    objects,
    require_model,
)

# A thinking block has a signature in the API, and clients drop a block without one. Nothing here is signed, and the
# text says so; it is not looked at when it comes back.
SIGNATURE = "unsigned"
THOUGHTS = ("thinking", "redacted_thinking")


def prepare(data: Body, facts: Facts) -> Asked:
    """The request as it is passed on."""
    asked = tools.own(data)
    drop_nulls(asked)
    require_model(asked, facts)
    _sign_history(asked)
    tools.fill_parameters([tool for tool in objects(asked.get("tools")) if "type" not in tool or _custom(tool)],
                          "input_schema")  # fmt: skip
    cap(asked, ("max_tokens",), facts.most_output)
    choice = asked.get("tool_choice")
    one = isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True
    return Asked(
        asked,
        changed=asked != data,
        stream=asked.get("stream") is True,
        answer=partial(whole, one_call=one),
        events=partial(Stream, one_call=one),
    )


def count(data: Body, facts: Facts) -> Asked:
    """A count of tokens: the same messages."""
    prepared = prepare(data, Facts(facts.model, facts.router, None, facts.created))
    return Asked(prepared.body, prepared.changed)


def _custom(tool: Body) -> bool:
    """Whether the client runs it; the others have no schema, and the engine leaves them out."""
    return tool.get("type") in (None, "custom")


def _sign_history(asked: Body) -> None:
    """Thoughts that come back: the router wants a text for a signature, and the engine takes no redacted ones."""
    messages = asked.get("messages")
    if isinstance(messages, list) and any(map(_has_thoughts, messages)):
        asked["messages"] = [_signed(message) if _has_thoughts(message) else message for message in messages]


def _has_thoughts(message: Any) -> bool:
    return isinstance(message, dict) and any(block.get("type") in THOUGHTS for block in objects(message.get("content")))


def _signed(message: Body) -> Body:
    content = [_signed_block(block) for block in message["content"] if not _is_redacted(block)]
    return {**message, "content": content or [{"type": "text", "text": ""}]}


def _is_redacted(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "redacted_thinking"


def _signed_block(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != "thinking" or block.get("signature") is not None:
        return block
    return {**block, "signature": SIGNATURE}


def whole(data: Body, *, one_call: bool) -> Body:
    """An answer in one piece."""
    data.setdefault("stop_sequence", None)
    content = objects(data.get("content"))
    for block in content:
        if block.get("type") == "thinking":
            block.setdefault("signature", SIGNATURE)
    calls = [block for block in content if block.get("type") == "tool_use"]
    if one_call and len(calls) > 1:
        left_out = set(map(id, calls[1:]))
        data["content"] = [block for block in content if id(block) not in left_out]
        data["stop_reason"] = "tool_use"
    return data


class Stream(Events):
    """A stream. Its texts pass as they are: only the events that begin or end something are taken apart."""

    def __init__(self, *, one_call: bool) -> None:
        self._one_call = one_call
        self._thinking: set[Any] = set()
        self._called: Any = None  # index of the first call
        self._cut: set[Any] = set()

    def block(self, block: bytes) -> bytes:
        """Deltas pass unread unless one of a call that is left out may be among them."""
        return b"".join(map(self._passed, sse.events(block)))

    def _passed(self, event: bytes) -> bytes:
        return event if b'"content_block_delta"' in event and not self._cut else self._one(event)

    def event(self, data: Body) -> Iterable[Body]:
        """One event."""
        kind, index = data.get("type"), data.get("index")
        if kind == "content_block_start":
            self._begin(index, data.get("content_block") or {})
        if index is not None and index in self._cut:
            return ()
        if index is not None and self._cut:
            data["index"] = closed_up(index, self._cut)
        if kind == "content_block_stop" and index in self._thinking:
            self._thinking.discard(index)
            signed = {"type": "signature_delta", "signature": SIGNATURE}
            return ({"type": "content_block_delta", "index": data["index"], "delta": signed}, data)
        if kind == "message_start" and isinstance(data.get("message"), dict):
            data["message"].setdefault("stop_reason", None)
            data["message"].setdefault("stop_sequence", None)
        if kind == "message_delta" and isinstance(data.get("delta"), dict):
            data["delta"].setdefault("stop_sequence", None)
            if self._cut:
                data["delta"]["stop_reason"] = "tool_use"
        return (data,)

    def _begin(self, index: Any, block: Body) -> None:
        if block.get("type") == "thinking":
            block.setdefault("signature", "")
            self._thinking.add(index)
        if self._one_call and block.get("type") == "tool_use":
            if self._called is None:
                self._called = index
            else:
                self._cut.add(index)
