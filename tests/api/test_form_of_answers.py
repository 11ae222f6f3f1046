"""The checks of an answer's form: what the front makes of recorded answers passes them, what is wrong does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsv4_pd.run.front import dialects, errors, sse
from dsv4_pd.run.front.dialects.base import Facts
from dsv4_pd.run.front.errors import Refusal
from dsv4_pd.run.front.routes import Dialect
from front.recorded import answer
from front.test_dialects import BASES

from api import excerpt, forms, published
from api.case import CHAT, MESSAGES, NATIVE, RESPONSES, TEXT, Case
from api.client import Answer

ROUTERS = ("sglang-router", "smg")
TOOLS = {"tools": [{"type": "function", "function": {"name": "get_weather"}}]}
WHOLE = {
    "chat": (CHAT, {}), "chat logprobs": (CHAT, {}), "chat tool two": (CHAT, TOOLS), "completion": (TEXT, {}),
    "generate": (NATIVE, {}),
}  # fmt: skip
STREAMS = {
    "chat stream": (CHAT, {}), "chat n2 stream": (CHAT, {}), "chat tool stream two": (CHAT, TOOLS),
    "completion stream": (TEXT, {}),
}  # fmt: skip
SMG_WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "msg": (MESSAGES, {}), "msg think": (MESSAGES, {}), "msg tool two": (MESSAGES, {}), "resp": (RESPONSES, {}),
    "resp tool two": (RESPONSES, {}),
}  # fmt: skip
SMG_STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "msg stream": (MESSAGES, {}), "msg think stream": (MESSAGES, {}), "msg tool two stream": (MESSAGES, {}),
    "resp tool two stream": (RESPONSES, {}),
}  # fmt: skip
EVERY = [(router, name, row) for router in ROUTERS for name, row in {**WHOLE, **STREAMS}.items()]
EVERY += [("smg", name, row) for name, row in {**SMG_WHOLE, **SMG_STREAMS}.items()]


def sent(path: str, *, stream: bool = False) -> Case:
    return Case("a row", path, {"stream": stream})


def answered(text: str, kind: str = "application/json", status: int = 200) -> Answer:
    return Answer(status, text, {"content-type": kind, "x-request-id": "r"}, 0.0)


def passed_on(name: str, router: str, path: str, fields: dict[str, Any]) -> Answer:
    """What a client gets of a recorded answer."""
    recorded = answer(name, router)
    stream = "event-stream" in recorded.type
    body = {**BASES[path], **fields, **({"stream": True} if stream else {})}
    asked = dialects.prepare(path, body, Facts("m", "smg", None, 1))
    if not stream:
        return answered(json.dumps(asked.answer(recorded.json()) if asked.answer else recorded.json()))
    raw = recorded.text.encode()
    raw = sse.without_count(raw) if asked.hide_usage else raw
    return answered((asked.events().block(raw) if asked.events else raw).decode(), "text/event-stream")


@pytest.mark.parametrize(("router", "name", "row"), EVERY, ids=lambda value: str(value)[:24])
def test_what_was_recorded_has_its_form(router: str, name: str, row: tuple[str, dict[str, Any]]) -> None:
    path, fields = row
    found = passed_on(name, router, path, fields)
    case = sent(path, stream="event-stream" in found.headers["content-type"])
    assert [fault for fault in forms.faults(case, found) if forms.place(fault) not in forms.KNOWN] == []


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.RESPONSES, Dialect.NATIVE])
def test_the_fronts_own_errors_have_it(dialect: Dialect) -> None:
    paths = {Dialect.OPENAI: CHAT, Dialect.ANTHROPIC: MESSAGES, Dialect.RESPONSES: RESPONSES, Dialect.NATIVE: NATIVE}
    for status in (400, 401, 404, 405, 408, 413, 429, 500, 502, 503, 504):
        text = errors.body(dialect, Refusal(status, "no"), "r").decode()
        assert forms.faults(sent(paths[dialect], stream=True), answered(text, status=status)) == []


def test_an_error_in_the_middle_of_a_stream_has_it() -> None:
    broke = Refusal(502, "The router ended the connection", code="upstream_broke")
    found = {dialect: _data(errors.event(dialect, broke, "r")) for dialect in Dialect}
    assert published.faults("ErrorResponse", found[Dialect.OPENAI]) == []
    assert published.faults("ResponseErrorEvent", found[Dialect.RESPONSES]) == []
    assert forms.faults(sent(MESSAGES), answered(json.dumps(found[Dialect.ANTHROPIC]), status=502)) == []


def _data(event: bytes) -> Any:
    return json.loads(sse.parsed(event)[1])


GOOD = {"message": "no", "type": "invalid_request_error", "param": None, "code": None}
ANTHROPIC = {"type": "error", "error": {"type": "not_found_error", "message": "no"}, "request_id": "r"}
BAD_ERRORS: dict[str, tuple[str, str, str]] = {
    "a stream": (CHAT, "text/event-stream", json.dumps({"error": GOOD})),
    "text": (CHAT, "text/plain; charset=utf-8", "not found"),
    "no JSON": (CHAT, "application/json", "{'error': 1}"),
    "a message without an error": (CHAT, "application/json", '{"message": "no"}'),
    "without param": (CHAT, "application/json", '{"error": {"message": "no", "type": "x", "code": null}}'),
    "a number as code": (CHAT, "application/json", json.dumps({"error": {**GOOD, "code": 400}})),
    "an object as message": (CHAT, "application/json", json.dumps({"error": {**GOOD, "message": {"message": "no"}}})),
    "JSON in JSON": (CHAT, "application/json", json.dumps({"error": {
        **GOOD, "message": 'Prefill server error (400 Bad Request): {"object":"error","message":"no"}'}})),
    "JSON in JSON, cut": (CHAT, "application/json", json.dumps({"error": {**GOOD, "message": '400: {"error":{"mess'}})),
    "a Python error": (CHAT, "application/json", json.dumps({"error": {**GOOD, "message": "data: {'error': 'x'}"}})),
    "an empty message": (CHAT, "application/json", json.dumps({"error": {**GOOD, "message": " "}})),
    "another API's": (MESSAGES, "application/json", json.dumps({"error": GOOD})),
    "Anthropic's at OpenAI's": (CHAT, "application/json", json.dumps(ANTHROPIC)),
    "an unknown type": (MESSAGES, "application/json", json.dumps({
        **ANTHROPIC, "error": {"type": "x", "message": "y"}})),
    "no id": (MESSAGES, "application/json", json.dumps({k: v for k, v in ANTHROPIC.items() if k != "request_id"})),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ERRORS)
def test_an_error_in_another_form_is_found(name: str) -> None:
    path, kind, text = BAD_ERRORS[name]
    assert forms.faults(sent(path), answered(text, kind, 400))


def test_words_with_braces_are_no_error_of_another() -> None:
    text = json.dumps({"error": {**GOOD, "message": "tools: found {'type': 'x'} and {\"type\": 1}"}})
    assert forms.faults(sent(CHAT), answered(text, status=400)) == []


def test_content_types_and_ids_are_looked_at() -> None:
    whole = passed_on("chat", "smg", CHAT, {}).text
    assert forms.faults(sent(CHAT), answered(whole, "text/plain"))
    assert forms.faults(sent(CHAT, stream=True), answered(whole))
    assert forms.faults(sent(CHAT), Answer(200, whole, {"content-type": "application/json"}, 0.0)) == [
        "no x-request-id"
    ]


def changed(text: str, name: str, old: str, new: str) -> Answer:
    assert old in text, name
    return answered(text.replace(old, new, 1), "text/event-stream")


STREAM_FAULTS: dict[str, tuple[str, str, str, str]] = {
    "a gap in the blocks": ("msg tool two stream", MESSAGES, '"index":1', '"index":2'),
    "a name that is not the type": ("msg stream", MESSAGES, "event: content_block_stop", "event: content_block_delta"),
    "no reason": ("msg stream", MESSAGES, '"stop_reason":"max_tokens"', '"stop_reason":null'),
    "no end": ("msg stream", MESSAGES, "event: message_stop", "event: ping"),
    "no [DONE]": ("chat stream", CHAT, "data: [DONE]", ""),
    "an unknown reason": ("chat stream", CHAT, '"finish_reason":"', '"finish_reason":"x'),
    "no number": ("chat stream", CHAT, '"created":', '"create":'),
    "a number twice": ("resp tool two stream", RESPONSES, '"sequence_number":3', '"sequence_number":2'),
    "an event that nobody knows": (
        "resp tool two stream", RESPONSES, "response.output_item.added", "response.output_item.nosuch"),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAM_FAULTS)
def test_a_stream_in_another_form_is_found(name: str) -> None:
    recorded, path, old, new = STREAM_FAULTS[name]
    text = passed_on(recorded, "smg", path, TOOLS if path == CHAT else {}).text
    found = forms.faults(sent(path, stream=True), changed(text, name, old, new))
    assert [fault for fault in found if forms.place(fault) not in forms.KNOWN]


def test_a_signature_of_thoughts_is_looked_for() -> None:
    body = answer("msg think").json()  # as the router has it
    assert forms.faults(sent(MESSAGES), answered(json.dumps(body)))


def test_the_engines_own_metadata_is_found() -> None:
    """What pydantic-ai fell over: the answer as it was before the front."""
    found = forms.faults(sent(CHAT), answered(json.dumps(answer("chat").json())))
    assert any("metadata" in fault for fault in found)
    assert any("refusal" in fault for fault in found)


def test_the_excerpt_has_what_it_is_asked_for() -> None:
    assert set(excerpt.ROOTS) | set(excerpt.KINDS) | set(excerpt.NEVER) <= published.names()
