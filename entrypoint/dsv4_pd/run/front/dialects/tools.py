"""Tools and their choice, in the three forms that the APIs have for them. Pure; each works in place."""

from __future__ import annotations

from typing import Any

from dsv4_pd.run.front.dialects.base import NO_PARAMETERS, Body, bad, objects, shown

# A schema with one of these says by them what it is, so nothing is added to it.
_REFERENCES = frozenset({"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf"})


def own(data: Body) -> Body:
    """A copy to change: its tools and their functions are its own, the rest (megabytes of messages, schemas of any
    depth) is shared with the original. Raises Refusal for tools that are no objects.
    """
    found = dict(data)
    for name in ("tools", "functions"):
        if found.get(name) is not None:
            found[name] = [_copied(item) for item in _listed(name, found[name])]
    return found


def _listed(name: str, given: Any) -> list[Body]:
    if not isinstance(given, list):
        raise bad(name, f"found {shown(given)}, expected a list")
    for index, item in enumerate(given):
        if not isinstance(item, dict):
            raise bad(f"{name}[{index}]", f"found {shown(item)}, expected an object")
    return given


def _copied(tool: Body) -> Body:
    function = tool.get("function")
    return {**tool, "function": dict(function)} if isinstance(function, dict) else dict(tool)


def functions(data: Body) -> list[Body]:
    """The function of each tool of a chat."""
    return [tool["function"] for tool in objects(data.get("tools")) if isinstance(tool.get("function"), dict)]


def fill_parameters(items: list[Body], name: str = "parameters") -> None:
    """Left out, null or empty means a function without parameters; whatever leaves out its type is an object, as every
    call's arguments are. Raises Refusal for what is no schema of an object at all.
    """
    for item in items:
        given = item.get(name)
        if given is None or given == {}:
            item[name] = dict(NO_PARAMETERS)
        elif not isinstance(given, dict):
            raise bad("tools", f"{name}: found {shown(given)}, expected a JSON schema of an object")
        elif given.get("type") is None and not given.keys() & _REFERENCES:
            item[name] = {**given, "type": "object"}


def refuse_others(data: Body) -> None:
    """Chat tools that are no functions: this model was trained on functions alone."""
    for index, tool in enumerate(objects(data.get("tools"))):
        if (kind := tool.get("type", "function")) != "function":
            raise bad(f"tools[{index}].type", f"{shown(kind)} is not served, expected 'function'")


def choose_allowed(data: Body) -> None:
    """`allowed_tools`: the other tools are left out, and the mode becomes the choice.

    The form of chats nests what the form of responses has flat; both are understood.
    """
    choice = data.get("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return
    inner = choice.get("allowed_tools", choice)
    if not isinstance(inner, dict):
        raise bad("tool_choice.allowed_tools", f"found {shown(inner)}, expected an object")
    mode = inner.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise bad("tool_choice.allowed_tools.mode", f"found {shown(mode)}, expected 'auto' or 'required'")
    allowed = _names("tool_choice.allowed_tools.tools", inner.get("tools"))
    known = _names("tools", data.get("tools") or [])
    if missing := sorted(set(allowed) - set(known)):
        raise bad("tool_choice.allowed_tools.tools", f"names tools that are not in tools: {', '.join(missing)[:200]}")
    data["tools"] = [tool for tool, name in zip(data.get("tools") or [], known, strict=True) if name in allowed]
    data["tool_choice"] = mode if data["tools"] else "none"


def _names(where: str, given: Any) -> list[str]:
    """The name of each tool of a list; raises Refusal where one has none."""
    return [_name(f"{where}[{index}]", tool) for index, tool in enumerate(_listed(where, given))]


def _name(where: str, tool: Body) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name")
    for what, value in (("name", name), ("type", tool.get("type", "function"))):
        if not isinstance(value, str):
            raise bad(where, f"found {shown(value)} for its {what}, expected a text")
    return str(name)


def may_call(data: Body) -> bool:
    """Whether the answer to a request may be a tool call."""
    return bool(data.get("tools")) and data.get("tool_choice") != "none"
