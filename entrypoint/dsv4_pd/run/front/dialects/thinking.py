"""Every spelling of "think" that clients have, as the one that the engine knows: `chat_template_kwargs.thinking`."""

from __future__ import annotations

from typing import Any

from dsv4_pd.run.front.dialects.base import Body, bad, shown

_TEXTS = {"true": True, "false": False}
KINDS = {"enabled": True, "disabled": False, "adaptive": True}


def take_reasoning(data: Body) -> None:
    """A chat's `reasoning: {effort, enabled}`, which one router drops and the other passes on, as the fields that both
    know. Names and order are the engine's: its effort counts before `reasoning_effort`.
    """
    given = data.pop("reasoning", None)
    if given is None:
        return
    if not isinstance(given, dict):
        raise bad("reasoning", f"found {shown(given)}, expected an object")
    effort = _first(given, "effort", "reasoning_effort")
    if isinstance(effort, bool) or not isinstance(effort, str | int | float | None):
        raise bad("reasoning.effort", f"found {shown(effort)}, expected a text")
    if effort is not None:
        data["reasoning_effort"] = effort
    enabled = _switch("reasoning.enabled", _first(given, "enabled", "enable"))
    if enabled is not None:
        data.setdefault("enable_thinking", enabled)


def _first(given: Body, *names: str) -> Any:
    return next((given[name] for name in names if given.get(name) is not None), None)


def settle(data: Body) -> None:
    """DeepSeek's `thinking: {type}`, others' `enable_thinking`, at the top or among the template's arguments.

    The last word is the most particular one: `thinking: {type}`, then the template's own `thinking`.
    """
    given = data.get("chat_template_kwargs")
    if given is not None and not isinstance(given, dict):
        raise bad("chat_template_kwargs", f"found {shown(given)}, expected an object")
    arguments = dict(given or {})
    wanted = [
        _switch("enable_thinking", data.pop("enable_thinking", None)),
        _switch("chat_template_kwargs.enable_thinking", arguments.pop("enable_thinking", None)),
        _switch("chat_template_kwargs.thinking", arguments.pop("thinking", None)),
        _typed(data.pop("thinking", None)),
    ]
    said = [value for value in wanted if value is not None]
    if said:
        arguments["thinking"] = said[-1]
        if said[-1] is False and data.get("reasoning_effort") is not None:
            data["reasoning_effort"] = "none"  # an effort asks for thoughts; the switch says none
    if arguments:
        data["chat_template_kwargs"] = arguments
    elif given is not None:
        del data["chat_template_kwargs"]


def _switch(name: str, value: Any) -> bool | None:
    """A switch; texts count as what they say, because the engine takes any text for a yes."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TEXTS:
        return _TEXTS[value.lower()]
    raise bad(name, f"found {shown(value)}, expected true or false")


def _typed(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise bad("thinking", f"found {shown(value)}, expected an object with a type")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise bad("thinking.type", f"found {shown(kind)}, expected 'enabled' or 'disabled'")
    return KINDS[kind]
