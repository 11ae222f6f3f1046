"""/v1/completions and /generate. Pure."""

from __future__ import annotations

from typing import Any

from dsv4_pd.run.front.dialects.base import Asked, Body, Facts, bad, cap, count, drop_nulls, require_model, shown
from dsv4_pd.run.front.dialects.chat import count_tokens
from dsv4_pd.run.front.dialects.chat_answer import tidy

# What a request that names no length gets: OpenAI's default of completions, and the engine's own.
MAX_TOKENS, MAX_NEW_TOKENS = 16, 128


def prepare(data: Body, facts: Facts) -> Asked:
    """A completion."""
    asked = dict(data)
    drop_nulls(asked)
    require_model(asked, facts)
    cap(asked, ("max_tokens",), facts.most_output, MAX_TOKENS)
    best_of = asked.get("best_of")
    if type(best_of) is int and best_of == 1:
        del asked["best_of"]  # it says nothing, smg refuses it in a stream, and SGLang's own load generator sends it
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
    each = _sampling(asked.get("sampling_params"))
    for parameters in each:
        cap(parameters, ("max_new_tokens",), facts.most_output, MAX_NEW_TOKENS)
    if facts.most_output is not None and each:
        asked["sampling_params"] = each if isinstance(asked.get("sampling_params"), list) else each[0]
    answers = count(each[0].get("n")) if each else 1
    return Asked(asked, asked != data, asked.get("stream") is True, _prompts(asked) * answers)


def _sampling(given: Any) -> list[Body]:
    """The parameters of each prompt, or the ones of all; copies, to change. Raises Refusal for another form."""
    many = given if isinstance(given, list) else [{} if given is None else given]
    for item in many:
        if not isinstance(item, dict):
            raise bad("sampling_params", f"found {shown(item)}, expected an object, or a list of one for each prompt")
    return [dict(item) for item in many]


def _prompts(asked: Body) -> int:
    """Prompts of a native request."""
    ids, texts = asked.get("input_ids"), asked.get("text")
    if isinstance(ids, list) and ids and isinstance(ids[0], list):
        return len(ids)
    return len(texts) if isinstance(texts, list) else 1
