"""`functions` and `function_call`, which came before tools: asked as tools, answered in their own form. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dsv4_pd.run.front.dialects.base import Body, Events, bad, objects, shown


def to_tools(asked: Body) -> bool:
    """Rewrite a request in place; True where its answer has to be in the old form."""
    _rewrite_history(asked)
    given, choice = asked.pop("functions", None), asked.pop("function_call", None)
    if given is None:
        if choice is not None:
            raise bad("function_call", "is only allowed when functions are specified")
        return False
    if asked.get("tools"):
        raise bad("functions", "is not served together with tools, expected one of the two")
    if not given:
        raise bad("functions", "expected a list of at least one function")
    asked["tools"] = [{"type": "function", "function": function} for function in given]
    if choice is not None:
        asked["tool_choice"] = _choice(choice)
    asked["parallel_tool_calls"] = False  # the old form has room for one call
    return True


def _choice(choice: Any) -> Any:
    if choice in ("auto", "none"):
        return choice
    if isinstance(choice, dict) and isinstance(choice.get("name"), str):
        return {"type": "function", "function": {"name": choice["name"]}}
    raise bad("function_call", f"found {shown(choice)}, expected 'auto', 'none' or an object with a name")


def _rewrite_history(asked: Body) -> None:
    """Earlier calls and their results; each result belongs to the last call of its function."""
    messages = asked.get("messages")
    if not isinstance(messages, list) or not any(map(_is_old, messages)):
        return
    calls: dict[str, str] = {}
    asked["messages"] = [_rewritten(index, message, calls) for index, message in enumerate(messages)]


def _is_old(message: Any) -> bool:
    return isinstance(message, dict) and ("function_call" in message or message.get("role") == "function")


def _rewritten(index: int, message: Any, calls: dict[str, str]) -> Any:
    """One message, in the form of tools; `calls`: name of a function -> id of its last call, kept up to date."""
    if not _is_old(message):
        return message
    found = dict(message)
    call = found.pop("function_call", None)
    if call is not None:
        function = _called(f"messages[{index}].function_call", call)
        calls[function["name"]] = f"call_{index}"
        found["tool_calls"] = [{"id": f"call_{index}", "type": "function", "function": function}]
        found.setdefault("content", None)
    if found.get("role") == "function":
        name = _text(f"messages[{index}].name", found.pop("name", ""))
        found.update(role="tool", tool_call_id=calls.get(name, f"call_{index}"))
    return found


def _called(where: str, call: Any) -> dict[str, str]:
    if not isinstance(call, dict):
        raise bad(where, f"found {shown(call)}, expected an object")
    arguments = call.get("arguments")
    return {
        "name": _text(f"{where}.name", call.get("name")),
        "arguments": _text(f"{where}.arguments", "" if arguments is None else arguments) or "{}",
    }


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise bad(where, f"found {shown(value)}, expected a text")
    return value


def to_message(choice: Body) -> None:
    """One choice of a whole answer, in place."""
    message = choice.get("message") or {}
    if calls := message.pop("tool_calls", None):
        message["function_call"] = dict(calls[0]["function"])
        if choice.get("finish_reason") == "tool_calls":
            choice["finish_reason"] = "function_call"


class ToDeltas(Events):
    """The same for a stream."""

    def event(self, data: Body) -> Iterable[Body]:
        """One chunk."""
        for choice in objects(data.get("choices")):
            delta = choice.get("delta") or {}
            if calls := delta.pop("tool_calls", None):
                found = calls[0].get("function") or {}
                delta["function_call"] = {name: value for name, value in found.items() if value is not None}
            if choice.get("finish_reason") == "tool_calls":
                choice["finish_reason"] = "function_call"
        return (data,)
