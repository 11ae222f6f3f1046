"""The form of an answer, beside its words: content type, the JSON of errors, OpenAI's published schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from dsv4_pd.run.front import routes
from dsv4_pd.run.front.routes import Dialect

from api import forms_stream, published
from api.case import CHAT, MESSAGES, NATIVE, RESPONSES, TEXT, Case
from api.client import Answer

JSON, STREAM, HTML = "application/json", "text/event-stream", "text/html"
WHOLE = {CHAT: "CreateChatCompletionResponse", TEXT: "CreateCompletionResponse", RESPONSES: "Response"}
STREAMED: dict[str, Callable[[Answer], list[str]]] = {
    CHAT: forms_stream.chunks("CreateChatCompletionStreamResponse"),
    TEXT: forms_stream.chunks("CreateCompletionResponse"),
    RESPONSES: forms_stream.responses,
    MESSAGES: forms_stream.messages,
    NATIVE: forms_stream.native,
}
ANTHROPIC_ERRORS = {
    "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large",
    "rate_limit_error", "overloaded_error", "timeout_error", "api_error",
}  # fmt: skip
# Where the product departs from OpenAI's schema, and why. docs/api.md shows it, and a run that finds anything else, or
# does not find all of it, fails.
_AS_OPENAI = "null before the end of a stream, as OpenAI's own servers have it"
_NULL = "null where nothing is said, the schema leaves it out"
KNOWN: dict[str, str] = {
    "CreateChatCompletionResponse.choices.N.logprobs": "without `refusal`, which would be null",
    "chunk of CreateChatCompletionStreamResponse.choices.N.logprobs": "without `refusal`, which would be null",
    "chunk of CreateCompletionResponse.choices.N.finish_reason": _AS_OPENAI,
    "chunk of CreateCompletionResponse.usage": _AS_OPENAI,
    "Response.output.N.content.N.logprobs": _NULL,
    "Response.text": _NULL,
    "Response.tools.N.defer_loading": _NULL,
    "Response.tools.N.description": _NULL,
    "Response.user": _NULL,
    "ResponseContentPartAddedEvent.part.logprobs": _NULL,
    "ResponseContentPartDoneEvent.part.logprobs": _NULL,
    "ResponseCreatedEvent.response.usage": _AS_OPENAI,
    "ResponseFailedEvent.response.usage": _NULL,
    "ResponseInProgressEvent.response.usage": _AS_OPENAI,
    "ResponseOutputItemDoneEvent.item.content.N.logprobs": _NULL,
}


def faults(case: Case, answer: Answer) -> list[str]:
    """What is wrong with the form of an answer; [] where nothing is."""
    found = [] if answer.headers.get("x-request-id") else ["no x-request-id"]
    if answer.status >= 400:
        return found + _error(case, answer)
    return found + (_streamed(case, answer) if case.stream else _whole(case, answer))


def place(fault: str) -> str:
    """A fault of the schema without its numbers and words, as KNOWN names it.

    >>> place("Response.output.0.content.12.logprobs: None is not of type 'array'")
    'Response.output.N.content.N.logprobs'
    >>> place("ResponseCreatedEvent.response.user: None is not of type 'string'")
    'Response.user'
    """
    found = re.sub(r"^Response\w+Event\.response(?=\.(?!usage))", "Response", fault.split(": ", maxsplit=1)[0])
    return re.sub(r"\.\d+(?=\.|$)", ".N", found)


def _type(answer: Answer) -> str:
    return answer.headers.get("content-type", "").split(";")[0]


def _error(case: Case, answer: Answer) -> list[str]:
    """An error in the form of the API that was asked: also where the answer was to be a stream."""
    if _type(answer) != JSON:
        return [f"an error of type {_type(answer)!r}, expected {JSON}"]
    try:
        body = answer.json()
    except ValueError:
        return ["an error that is no JSON"]
    if not isinstance(body, dict) or not isinstance(body.get("error"), dict):
        return ["an error without an object `error`"]
    anthropic = routes.of(case.path) is Dialect.ANTHROPIC
    return (_anthropic(body) if anthropic else _openai(body)) + _words(body["error"].get("message"))


def _openai(body: dict[str, Any]) -> list[str]:
    keys = [] if body.keys() == {"error"} else [f"the error's document has {sorted(body)}"]
    return keys + published.faults("ErrorResponse", body)


def _anthropic(body: dict[str, Any]) -> list[str]:
    error, found = body["error"], []
    if body.keys() != {"type", "error", "request_id"} or body["type"] != "error":
        found.append(f"the error's document has {sorted(body)}, type {body.get('type')!r}")
    if error.keys() != {"type", "message"} or error.get("type") not in ANTHROPIC_ERRORS:
        found.append(f"the error has {sorted(error)}, type {error.get('type')!r}")
    return found


def _words(message: Any) -> list[str]:
    """The message is for people: one sentence of text, not the JSON of whoever was asked behind."""
    if not isinstance(message, str) or not message.strip():
        return [f"the error's message is {message!r}"]
    wrapped = [at.start() for at in re.finditer(r"\{", message) if _is_error(message[at.start() :])]
    return [f"the error's message holds another one: {message[:200]}"] if wrapped or message.startswith("data:") else []


def _is_error(text: str) -> bool:
    """Whether a text begins with the JSON of an error.

    >>> _is_error('{"object":"error","message":"x"} and more'), _is_error('{"type": "nosuch"}')
    (True, False)
    """
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return text.startswith(('{"error', '{"message', '{"object', "{'error", "{'message"))  # cut off, or Python's
    return isinstance(found, dict) and bool(found.keys() & {"error", "message", "detail"})


def _whole(case: Case, answer: Answer) -> list[str]:
    path = case.path.split("?")[0]
    if path == "/":
        return [] if _type(answer) == HTML else [f"a page of type {_type(answer)!r}"]
    if _type(answer) != JSON:
        return [f"an answer of type {_type(answer)!r}, expected {JSON}"]
    body = answer.json()
    if path == MESSAGES:
        return forms_stream.message(body)
    if path.startswith(routes.MODELS):
        return published.faults("ListModelsResponse" if path == routes.MODELS else "Model", body)
    return published.faults(WHOLE[path], body) if path in WHOLE else []


def _streamed(case: Case, answer: Answer) -> list[str]:
    if _type(answer) != STREAM:
        return [f"a stream of type {_type(answer)!r}, expected {STREAM}"]
    return sorted(set(STREAMED[case.path](answer)))
