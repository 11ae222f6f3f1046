"""/v1/responses: what its clients send and the router does not know, and one call where one is wanted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from dsv4_pd.run.front.dialects import thinking, tools
from dsv4_pd.run.front.dialects.base import (
    Asked,
    Body,
    Events,
    Facts,
    bad,
    cap,
    closed_up,
    drop_nulls,
    objects,
    require_model,
    shown,
)

# The fields of smg 1.13, which refuses a request with any other; a test asks the real one.
KNOWN = frozenset({
    "include", "background", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
    "conversation", "parallel_tool_calls", "previous_response_id", "reasoning", "service_tier", "store", "stream",
    "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "text", "user", "request_id",
    "priority", "frequency_penalty", "presence_penalty", "stop", "prompt", "prompt_cache_key",
    "prompt_cache_retention", "safety_identifier", "stream_options", "context_management", "top_k", "min_p",
    "repetition_penalty",
})  # fmt: skip


def prepare(data: Body, facts: Facts) -> Asked:
    """The request as it is passed on. Fields that the router does not know are left out."""
    asked = tools.own(data)
    drop_nulls(asked)
    require_model(asked, facts)
    _settle_thinking(asked)
    for name in asked.keys() - KNOWN:
        del asked[name]
    if asked.get("conversation") is not None:
        raise bad("conversation", "is not kept here: send the earlier turns as input")
    functions = [tool for tool in objects(asked.get("tools")) if tool.get("type") == "function"]
    if functions and len(functions) == len(asked["tools"]):  # the engine has the others' names in forms of its own
        tools.choose_allowed(asked)
    tools.fill_parameters(functions)
    cap(asked, ("max_output_tokens",), facts.most_output)
    one = asked.get("parallel_tool_calls") is False and tools.may_call(asked)
    return Asked(
        asked,
        changed=asked != data,
        stream=asked.get("stream") is True,
        answer=partial(whole, one_call=one),
        events=OneCall if one else None,
    )


def _settle_thinking(asked: Body) -> None:
    """A switch of another API becomes an effort, which is how this one asks for thoughts."""
    reasoning = asked.get("reasoning", {})
    if not isinstance(reasoning, dict):
        raise bad("reasoning", f"found {shown(reasoning)}, expected an object")
    thinking.settle(asked)
    wanted = asked.pop("chat_template_kwargs", {}).get("thinking")
    if wanted is True and reasoning.get("effort") in (None, "none"):
        asked["reasoning"] = {**reasoning, "effort": "high"}
    elif wanted is False:
        asked.pop("reasoning", None)


def whole(data: Body, *, one_call: bool) -> Body:
    """An answer in one piece, or the one in an event."""
    if one_call and isinstance(data.get("output"), list):
        seen = False
        kept: list[Any] = []
        for item in data["output"]:
            call = isinstance(item, dict) and item.get("type") == "function_call"
            if not (call and seen):
                kept.append(item)
            seen = seen or call
        if len(kept) < len(data["output"]):
            data["output"], data["status"], data["incomplete_details"] = kept, "completed", None
    return data


class OneCall(Events):
    """A stream with the first call alone; what is left out takes no number."""

    def __init__(self) -> None:
        self._called: Any = None
        self._cut: set[Any] = set()
        self._number = 0

    def event(self, data: Body) -> Iterable[Body]:
        """One event."""
        index, item = data.get("output_index"), data.get("item")
        if data.get("type") == "response.output_item.added" and isinstance(item, dict):
            if item.get("type") == "function_call" and self._called is not None:
                self._cut.add(index)
            elif item.get("type") == "function_call":
                self._called = index
        if index is not None and index in self._cut:
            return ()
        if index is not None and self._cut:
            data["output_index"] = closed_up(index, self._cut)
        if isinstance(data.get("response"), dict):
            before = data["response"].get("status")
            whole(data["response"], one_call=True)
            if before == "incomplete" and data["response"].get("status") == "completed":
                data["type"] = "response.completed"
        if "sequence_number" in data:
            data["sequence_number"], self._number = self._number, self._number + 1
        return (data,)
