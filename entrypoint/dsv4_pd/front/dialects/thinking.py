"""Every spelling of "think" that clients have, as the one that the engine knows: `chat_template_kwargs.thinking`."""

from __future__ import annotations

from typing import Any

from dsv4_pd.front.dialects.base import Body, bad

_TEXTS = {"true": True, "false": False}
KINDS = {"enabled": True, "disabled": False, "adaptive": True}


def settle(data: Body) -> None:
    """DeepSeek's `thinking: {type}`, others' `enable_thinking`, at the top or among the template's arguments.

    The last word is the most particular one: `thinking: {type}`, then the template's own `thinking`.
    """
    given = data.get("chat_template_kwargs")
    if given is not None and not isinstance(given, dict):
        raise bad("chat_template_kwargs", f"found {type(given).__name__}, expected an object")
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
    raise bad(name, f"found {str(value)[:60]!r}, expected true or false")


def _typed(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in KINDS:
        raise bad("thinking.type", f"found {str(kind)[:60]!r}, expected 'enabled' or 'disabled'")
    return KINDS[kind]
