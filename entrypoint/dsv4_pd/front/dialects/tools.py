"""Tools and their choice, in the three forms that the APIs have for them. Pure; each works in place."""

from __future__ import annotations

import copy
from typing import Any

from dsv4_pd.front.dialects.base import NO_PARAMETERS, Body, bad, objects


def own(data: Body) -> Body:
    """A copy to change: its tools are its own, the rest (megabytes of messages) is shared with the original."""
    found = dict(data)
    for name in ("tools", "functions"):
        if isinstance(found.get(name), list):
            found[name] = copy.deepcopy(found[name])
    return found


def functions(data: Body) -> list[Body]:
    """The function of each tool of a chat."""
    return [tool["function"] for tool in objects(data.get("tools")) if isinstance(tool.get("function"), dict)]


def fill_parameters(items: list[Body], name: str = "parameters") -> None:
    """Left out, null or empty means a function without parameters."""
    for item in items:
        if not item.get(name):
            item[name] = dict(NO_PARAMETERS)
        elif isinstance(item[name], dict) and "type" not in item[name] and "properties" in item[name]:
            item[name] = {"type": "object", **item[name]}


def refuse_others(data: Body) -> None:
    """Chat tools that are no functions: this model was trained on functions alone."""
    for index, tool in enumerate(objects(data.get("tools"))):
        if (kind := tool.get("type", "function")) != "function":
            raise bad(f"tools[{index}].type", f"{str(kind)[:60]!r} is not served, expected 'function'")


def choose_allowed(data: Body) -> None:
    """`allowed_tools`: the other tools are left out, and the mode becomes the choice.

    The form of chats nests what the form of responses has flat; both are understood.
    """
    choice = data.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return
    nested = choice.get("allowed_tools")
    inner: Body = nested if isinstance(nested, dict) else choice
    mode = inner.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise bad("tool_choice.allowed_tools.mode", f"found {str(mode)[:60]!r}, expected 'auto' or 'required'")
    allowed = {_name(tool) for tool in objects(inner.get("tools"))}
    known = {_name(tool) for tool in objects(data.get("tools"))}
    if missing := sorted(str(name) for name in allowed - known):
        raise bad("tool_choice.allowed_tools.tools", f"names tools that are not in tools: {', '.join(missing)[:200]}")
    data["tools"] = [tool for tool in data.get("tools") or [] if _name(tool) in allowed]
    data["tool_choice"] = mode if data["tools"] else "none"


def _name(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")


def may_call(data: Body) -> bool:
    """Whether the answer to a request may be a tool call."""
    return bool(data.get("tools")) and data.get("tool_choice") != "none"
