"""What a served answer must hold in /v1/messages and /v1/responses, and where tools are called."""

from __future__ import annotations

import json
from typing import Any

from api import assembled
from api.checks import Check
from api.client import Answer

JSON_OBJECT = {"city"}  # the keys of the form that the rows ask for


def called(name: str, arguments: str | None = None, count: int | None = None) -> Check:
    """Tool calls of a chat, all of that name. `arguments`: of the first one; `count`: how many."""

    def check(answer: Answer) -> str:
        calls = assembled.chat(answer).calls
        assert {found for found, _ in calls} == {name}, calls
        assert arguments is None or calls[0][1] == arguments, calls
        assert count is None or len(calls) == count, calls
        return _words(answer, "one tool call" if count == 1 else "a tool call")

    return check


def function_called(name: str) -> Check:
    """A call in the form before tools."""

    def check(answer: Answer) -> str:
        found = assembled.chat(answer)
        assert found.function is not None and not found.calls, answer.text
        assert found.function[0] == name and json.loads(found.function[1]), found
        assert found.finish == "function_call", found
        return _words(answer, "a function call")

    return check


def spoken(answer: Answer) -> str:
    """A chat with words and no call."""
    found = assembled.chat(answer)
    assert found.content and not found.calls and found.function is None, answer.text
    return "streamed" if assembled.streamed(answer) else "served"


def formed(answer: Answer) -> str:
    """Tools that may be called beside a form of the answer: here the answer has the form."""
    found = assembled.chat(answer)
    assert not found.calls and set(json.loads(found.content)) == JSON_OBJECT, answer.text
    return _words(answer, "served, in the form")


def message(*kinds: str, stop: str | None = None, sequence: str | None = None) -> Check:
    """Anthropic's message with blocks of these kinds. `stop`: why it ended."""

    def check(answer: Answer) -> str:
        found = assembled.message(answer)
        assert [block["type"] for block in found["content"]] == list(kinds or ("text",)), found
        assert stop is None or found["stop_reason"] == stop, found
        assert found["stop_sequence"] == sequence, found
        return _words(answer, _told(kinds, sequence))

    return check


def _told(kinds: tuple[str, ...], sequence: str | None) -> str:
    if sequence is not None:
        return "served, with `stop_sequence`"
    if "thinking" in kinds:
        return "served, thoughts in a `thinking` block"
    return "one tool call" if kinds == ("tool_use",) else "served"


def message_formed(answer: Answer) -> str:
    """A message whose text has the form that was asked for."""
    (block,) = assembled.message(answer)["content"]
    assert set(json.loads(block["text"])) == JSON_OBJECT, block
    return _words(answer, "served, in the form")


def tools_used(name: str) -> Check:
    """Anthropic's tool calls, at least one, the first one with its input."""

    def check(answer: Answer) -> str:
        calls = [block for block in assembled.message(answer)["content"] if block["type"] == "tool_use"]
        assert calls and {call["name"] for call in calls} == {name}, answer.text
        assert calls[0]["input"], calls
        return _words(answer, "a tool call")

    return check


def error_in_stream(answer: Answer) -> str:
    """The servers found it out when the stream had begun: the error is one of its events, and no text precedes it."""
    kinds = [event["type"] for event in assembled.events(answer)]
    assert {"error", "response.failed"} & set(kinds), kinds
    assert not [kind for kind in kinds if kind.endswith("delta")], kinds
    return "200, and the error is an event of the stream"


def counted(answer: Answer) -> str:
    """A count of tokens."""
    assert answer.json()["input_tokens"] > 0
    return "served"


def response(*kinds: str, words: str = "served", **fields: Any) -> Check:
    """A response with items of these kinds. `fields`: what else it says."""

    def check(answer: Answer) -> str:
        found = assembled.response(answer)
        assert [item["type"] for item in found["output"]] == list(kinds or ("message",)), found
        for name, value in fields.items():
            assert found[name] == value, (name, found)
        return _words(answer, words)

    return check


def function_calls(name: str, count: int | None = None, words: str = "a tool call") -> Check:
    """Calls of a response, all of that name."""

    def check(answer: Answer) -> str:
        calls = [item for item in assembled.response(answer)["output"] if item["type"] == "function_call"]
        assert {call["name"] for call in calls} == {name}, answer.text
        assert json.loads(calls[0]["arguments"]), calls
        assert count is None or len(calls) == count, calls
        return _words(answer, "one tool call" if count == 1 else words)

    return check


def response_formed(answer: Answer) -> str:
    """A response whose text has the form that was asked for."""
    (item,) = assembled.response(answer)["output"]
    assert set(json.loads(item["content"][0]["text"])) == JSON_OBJECT, item
    return _words(answer, "served, in the form")


def model(name: str) -> Check:
    """One model."""

    def check(answer: Answer) -> str:
        assert answer.json()["id"] == name
        return "served"

    return check


def state(answer: Answer) -> str:
    """The guard's word about itself."""
    assert answer.json()["state"] == "READY"
    return "200 while READY or DEGRADED, else 503"


def page(answer: Answer) -> str:
    """A page for a browser."""
    assert answer.headers["content-type"].startswith("text/html") and "<html" in answer.text
    return "the page to try it"


def _words(answer: Answer, words: str) -> str:
    if not assembled.streamed(answer):
        return words
    return "streamed" if words == "served" else f"{words}, streamed".replace("served, ", "", 1)
