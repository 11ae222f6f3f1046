"""/v1/chat/completions: what OpenAI's API allows, in the form that both routers and the engine take. Pure."""

from __future__ import annotations

from functools import partial
from typing import Any

from dsv4_pd.run.front.dialects import chat_answer, legacy, thinking, tools
from dsv4_pd.run.front.dialects.base import (
    Asked,
    Body,
    Chain,
    Events,
    Facts,
    bad,
    cap,
    count,
    drop_nulls,
    require_model,
    shown,
)

VERBOSITIES = ("low", "medium", "high")


def prepare(data: Body, facts: Facts) -> Asked:
    """The request as it is passed on; raises Refusal for what can't be served."""
    asked = tools.own(data)
    drop_nulls(asked)
    require_model(asked, facts)
    old = legacy.to_tools(asked)
    _drop_verbosity(asked)
    thinking.take_reasoning(asked)
    thinking.settle(asked)
    tools.refuse_others(asked)
    tools.fill_parameters(tools.functions(asked))
    tools.choose_allowed(asked)
    cap(asked, ("max_completion_tokens", "max_tokens"), facts.most_output)
    hide = count_tokens(asked)
    one = asked.get("parallel_tool_calls") is False and tools.may_call(asked)
    return Asked(
        asked,
        changed=asked != data,
        stream=asked.get("stream") is True,
        slots=count(asked.get("n")),
        answer=partial(chat_answer.whole, one_call=one, old=old),
        events=partial(_events, one, old) if tools.may_call(asked) else None,
        hide_usage=hide,
    )


def _events(one_call: bool, old: bool) -> Events:
    """How a stream with tools changes."""
    return Chain(chat_answer.changes(one_call=one_call, old=old))


def count_tokens(asked: Body) -> bool:
    """Have a stream's tokens counted; True where the client did not ask for it and must not see it."""
    options = asked.get("stream_options")
    if asked.get("stream") is not True or not isinstance(options, dict | None):
        return False
    given = (options or {}).get("include_usage")
    if given is not None and given is not False:
        return False  # asked for; or no boolean, which the router refuses
    asked["stream_options"] = {**(options or {}), "include_usage": True}
    return True


def _drop_verbosity(asked: Body) -> None:
    """This model has no such knob. The field is checked, and not passed on: one router wants a number there."""
    found: Any = asked.pop("verbosity", None)
    if found is not None and found not in VERBOSITIES:
        raise bad("verbosity", f"found {shown(found)}, expected one of {', '.join(VERBOSITIES)}")
