"""/v1/completions and /generate. Pure."""

from __future__ import annotations

from dsv4_pd.front.dialects.base import Asked, Body, Facts, cap, count, drop_nulls, require_model
from dsv4_pd.front.dialects.chat import count_tokens
from dsv4_pd.front.dialects.chat_answer import tidy


def prepare(data: Body, facts: Facts) -> Asked:
    """A completion."""
    asked = dict(data)
    drop_nulls(asked)
    require_model(asked, facts)
    cap(asked, ("max_tokens",), facts.most_output)
    hide = count_tokens(asked)
    prompts = len(asked["prompt"]) if isinstance(asked.get("prompt"), list) else 1
    if prompts and isinstance(asked.get("prompt"), list) and isinstance(asked["prompt"][0], int):
        prompts = 1  # one prompt, as token ids
    return Asked(
        asked,
        changed=asked != data,
        stream=asked.get("stream") is True,
        slots=prompts * count(asked.get("n")),
        answer=tidy,
        hide_usage=hide,
    )


def native(data: Body, facts: Facts) -> Asked:
    """The engine's own form: passed on as it is, but for the operator's limit of output."""
    asked = dict(data)
    given = asked.get("sampling_params")
    each = [dict(item) for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    one = dict(given) if isinstance(given, dict) else {}
    for parameters in each or [one]:
        cap(parameters, ("max_new_tokens",), facts.most_output)
    if facts.most_output is not None:
        asked["sampling_params"] = each or one
    return Asked(asked, asked != data, asked.get("stream") is True, _prompts(asked) * count(one.get("n")))


def _prompts(asked: Body) -> int:
    """Prompts of a native request."""
    ids, texts = asked.get("input_ids"), asked.get("text")
    if isinstance(ids, list) and ids and isinstance(ids[0], list):
        return len(ids)
    return len(texts) if isinstance(texts, list) else 1
