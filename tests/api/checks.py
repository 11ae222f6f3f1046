"""What a served answer must hold: each check returns the words for the table, or fails."""

from __future__ import annotations

import re
from collections.abc import Callable

from api.client import Answer

Check = Callable[[Answer], str]


def served(answer: Answer) -> str:
    """A 200 with a body."""
    assert answer.text
    return "served"


def ignored(answer: Answer) -> str:
    """A 200 as if the field were not there."""
    assert answer.text
    return "served, the field is ignored"


def message(answer: Answer) -> str:
    """One chat answer; `content` is never null when the model came to its end."""
    choice = answer.json()["choices"][0]
    assert choice["finish_reason"] in ("stop", "length", "tool_calls")
    assert choice["finish_reason"] != "stop" or choice["message"]["content"] is not None
    assert "DSML" not in (choice["message"]["content"] or "")
    return "served"


def answers(count: int) -> Check:
    """So many choices, each with its own index, and usage that counts the prompt once per prompt."""

    def check(answer: Answer) -> str:
        body = answer.json()
        found = body["choices"] if isinstance(body, dict) else body
        assert len(found) == count, answer.text
        if isinstance(body, dict):
            assert [choice["index"] for choice in found] == list(range(count))
        return f"{count} answers"

    return check


def one_answer(answer: Answer) -> str:
    """One choice."""
    answers(1)(answer)
    return "served"


def streamed(count: int = 1, usage: bool = False) -> Check:
    """A whole stream: every index ends with a finish reason, then [DONE]."""

    def check(answer: Answer) -> str:
        chunks = answer.chunks()
        ended = {c["index"] for chunk in chunks for c in chunk["choices"] if c.get("finish_reason")}
        assert ended == set(range(count)), ended
        counts = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
        assert not usage or counts[-1]["completion_tokens"] > 0
        what = "streamed" if count == 1 else f"{count} answers, streamed"
        return f"{what}, with usage" if usage else what

    return check


def native_stream(answer: Answer) -> str:
    """/generate's own stream."""
    assert answer.chunks()[-1]["meta_info"]["finish_reason"]
    return "streamed"


def content(pattern: str) -> Check:
    """The whole content matches."""

    def check(answer: Answer) -> str:
        found = answer.json()["choices"][0]["message"]["content"]
        assert re.fullmatch(pattern, found, re.DOTALL), found
        return "served"

    return check


def reasoning(expected: bool) -> Check:
    """Thinking stands apart from the content, and only when it was asked for."""

    def check(answer: Answer) -> str:
        found = answer.json()["choices"][0]["message"]
        assert bool(found["reasoning_content"]) == expected, found
        return "served, thoughts in `reasoning_content`" if expected else "served, no thoughts"

    return check


def logprobs(answer: Answer) -> str:
    """Chat: one entry a token, each with the alternatives asked for."""
    entries = answer.json()["choices"][0]["logprobs"]["content"]
    assert entries
    assert all(len(entry["top_logprobs"]) == 3 for entry in entries)
    return "served"


def completion_logprobs(answer: Answer) -> str:
    """Completions: a number for each token."""
    found = answer.json()["choices"][0]["logprobs"]
    assert len(found["token_logprobs"]) == len(found["tokens"]) > 0
    return "served"


def prompt_logprobs(answer: Answer) -> str:
    """/generate: log probabilities of the prompt, which prefill computes, in decode's answer."""
    meta = answer.json()["meta_info"]
    found = len(meta.get("input_token_logprobs") or [])
    return "served, the prompt's included" if found >= meta["prompt_tokens"] else f"served, {found} of the prompt"


def listed(name: str) -> Check:
    """The model list has the served name."""

    def check(answer: Answer) -> str:
        assert name in [model["id"] for model in answer.json()["data"]]
        return "served"

    return check


def reason(answer: Answer) -> str:
    """The words of an error. They stand in one place, whichever API was asked: see forms.py."""
    return " ".join(str(answer.json()["error"]["message"]).split())
