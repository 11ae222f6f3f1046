"""What the real routers answered, and what a client gets of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsv4_pd.run.front import dialects, errors, sse
from dsv4_pd.run.front.dialects.base import Asked, Events, Facts

from front.recorded import answer

CHAT, TEXT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
ROUTERS = ("sglang-router", "smg")
TOOLS: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
}


def asked(path: str, **fields: Any) -> Asked:
    bases: dict[str, dict[str, Any]] = {
        CHAT: {"messages": []},
        TEXT: {"prompt": "a"},
        MESSAGES: {"messages": []},
        RESPONSES: {"input": "a"},
    }
    return dialects.prepare(path, {"model": "m", **bases[path], **fields}, Facts("m", "smg", None, 1))


def whole(path: str, name: str, router: str = "smg", **fields: Any) -> Any:
    change = asked(path, **fields).answer
    assert change is not None
    return change(answer(name, router).json())


def streamed(path: str, name: str, router: str = "smg", size: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """The data of a stream as a client gets it. `size`: it comes in pieces of so many bytes, 0: in one."""
    make = asked(path, stream=True, **fields).events
    assert make is not None
    change: Events = make()
    raw, cutter = answer(name, router).text.encode(), sse.Cutter()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)] if size else [raw]
    out = b"".join(change.block(block) for piece in pieces if (block := cutter.cut(piece)))
    assert not cutter.kept.strip()
    data = [sse.parsed(event)[1] for event in sse.events(out)]
    return [json.loads(item) for item in data if item.startswith(b"{")]


@pytest.mark.parametrize("router", ROUTERS)
def test_a_chats_answer_is_what_the_schema_says(router: str) -> None:
    found = whole(CHAT, "chat", router)
    assert "metadata" not in found
    assert found["choices"][0]["message"]["refusal"] is None
    assert "completion_tokens_details" not in found["usage"]
    assert found["choices"][0]["message"]["content"].startswith("I am the demo model")


def test_the_clients_own_metadata_stays() -> None:
    change = asked(CHAT).answer
    assert change is not None
    told = {"metadata": {"weight_version": "default", "weight_versions": [], "mine": "x"}, "choices": []}
    assert change(told)["metadata"] == {"mine": "x"}


@pytest.mark.parametrize("router", ROUTERS)
def test_completions_too(router: str) -> None:
    found = whole(TEXT, "completion", router)
    assert "metadata" not in found
    assert None not in found["usage"].values()


@pytest.mark.parametrize("router", ROUTERS)
def test_one_call_where_one_is_wanted(router: str) -> None:
    recorded = answer("chat tool two", router).json()["choices"][0]
    assert len(recorded["message"]["tool_calls"]) == 2
    both = whole(CHAT, "chat tool two", router, **TOOLS)["choices"][0]
    assert both["message"]["tool_calls"] == recorded["message"]["tool_calls"]
    one = whole(CHAT, "chat tool two", router, **TOOLS, parallel_tool_calls=False)["choices"][0]
    assert one["message"]["tool_calls"] == recorded["message"]["tool_calls"][:1]
    assert one["finish_reason"] == "tool_calls"


def arguments(chunks: list[dict[str, Any]]) -> dict[int, str]:
    """Index of a call -> its arguments, put together as clients do."""
    found: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls") or ():
                found[call["index"]] = found.get(call["index"], "") + call["function"].get("arguments", "")
    return found


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_a_stream_with_tools_has_no_nulls(router: str, size: int) -> None:
    chunks = streamed(CHAT, "chat tool stream two", router, size, **TOOLS)
    assert arguments(chunks)[0] == '{"city": "Paris"}'
    assert len(arguments(chunks)) == 2
    for chunk in chunks:
        assert chunk.get("usage", 1) is not None
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                assert None not in call.values()
                assert None not in call["function"].values()
            assert "role" not in choice["delta"] or choice["delta"]["role"] == "assistant"


@pytest.mark.parametrize("router", ROUTERS)
def test_one_call_of_a_stream(router: str) -> None:
    chunks = streamed(CHAT, "chat tool stream two", router, **TOOLS, parallel_tool_calls=False)
    assert arguments(chunks) == {0: '{"city": "Paris"}'}
    assert [choice["finish_reason"] for choice in chunks[-1]["choices"]] == ["tool_calls"]


def test_functions_are_answered_as_functions() -> None:
    old: dict[str, Any] = {"functions": [{"name": "get_weather"}]}
    message = whole(CHAT, "chat tool two", **old)["choices"][0]
    assert message["message"]["function_call"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert message["finish_reason"] == "function_call"
    assert "tool_calls" not in message["message"]
    chunks = streamed(CHAT, "chat tool stream two", **old)
    deltas = [choice["delta"].get("function_call") or {} for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("arguments", "") for delta in deltas) == '{"city": "Paris"}'
    assert [delta["name"] for delta in deltas if "name" in delta] == ["get_weather"]


def test_a_plain_stream_passes_unread() -> None:
    assert asked(CHAT, stream=True).events is None
    assert asked(TEXT, stream=True).events is None


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("name", ["chat stream usage", "completion stream usage"])
def test_a_count_that_was_not_asked_for_is_left_out(router: str, name: str) -> None:
    raw = answer(name, router).text.encode()
    found = sse.without_count(raw)
    assert b'"choices":[]' not in found
    assert found.endswith(b"data: [DONE]\n\n")
    assert len(list(sse.events(found))) == len(list(sse.events(raw))) - 1


USAGES = {
    "chat": (9, 47), "chat stream usage": (9, 3), "completion stream usage": (3, 1), "generate": (3, 3), "msg": (9, 47),
    "msg think": (90, 65), "resp": (9, 47), "chat tool two": (295, 60),
}  # fmt: skip


@pytest.mark.parametrize("name", USAGES)
def test_tokens_are_read_from_any_answer(name: str) -> None:
    assert sse.usage(answer(name).text.encode()) == USAGES[name]


def test_tokens_of_a_stream_of_messages() -> None:
    found = None
    for event in sse.events(answer("msg think stream").text.encode()):
        if told := sse.usage(event):
            found = sse.most(found, told)
    assert found == (90, 65)


def test_thoughts_are_signed() -> None:
    block = whole(MESSAGES, "msg think")["content"][0]
    assert block["type"] == "thinking"
    assert block["signature"] == "unsigned"


@pytest.mark.parametrize("size", [0, 13])
def test_thoughts_of_a_stream_are_signed_before_they_end(size: int) -> None:
    events = streamed(MESSAGES, "msg think stream", size=size)
    start = next(event for event in events if event["type"] == "content_block_start")
    assert start["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    stop = next(at for at, event in enumerate(events) if event["type"] == "content_block_stop")
    delta = {"type": "signature_delta", "signature": "unsigned"}
    assert events[stop - 1] == {"type": "content_block_delta", "index": 0, "delta": delta}
    assert events[0]["message"]["stop_reason"] is None
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    text = [event["delta"]["text"] for event in events if event.get("delta", {}).get("type") == "text_delta"]
    assert "".join(text).startswith("I am the demo model")


def test_one_call_of_messages() -> None:
    choice: dict[str, Any] = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    assert [block["type"] for block in answer("msg tool two").json()["content"]] == ["tool_use", "tool_use"]
    found = whole(MESSAGES, "msg tool two", **choice)
    assert [block["input"] for block in found["content"]] == [{"city": "Paris"}]
    assert found["stop_reason"] == "tool_use"
    events = streamed(MESSAGES, "msg tool two stream", **choice)
    assert {event["index"] for event in events if "index" in event} == {0}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-1] == {"type": "message_stop"}


def sent(*events: dict[str, Any]) -> bytes:
    return b"".join(sse.built(event["type"].encode(), json.dumps(event).encode()) for event in events)


def block(index: int, kind: str, **fields: Any) -> list[dict[str, Any]]:
    """One block of a stream of messages: its start, one delta and its stop."""
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}},
        {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta"}},
        {"type": "content_block_stop", "index": index},
    ]


def test_what_comes_after_a_call_that_is_left_out_has_its_number() -> None:
    """Clients take the number for a place in the list of what they have got."""
    choice: dict[str, Any] = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    kinds = ("tool_use", "tool_use", "text", "tool_use", "thinking")
    raw = sent(*(event for index, kind in enumerate(kinds) for event in block(index, kind)))
    make = asked(MESSAGES, stream=True, **choice).events
    assert make is not None
    found = [json.loads(sse.parsed(event)[1]) for event in sse.events(make().block(raw))]
    starts = [(one["index"], one["content_block"]["type"]) for one in found if "content_block" in one]
    assert starts == [(0, "tool_use"), (1, "text"), (2, "thinking")]
    assert [one["index"] for one in found] == [0] * 3 + [1] * 3 + [2] * 4, "a signature is one more"


def test_items_after_a_call_that_is_left_out_have_its_number() -> None:
    one: dict[str, Any] = {"tools": [{"type": "function", "name": "get_weather"}], "parallel_tool_calls": False}
    kinds = ("function_call", "function_call", "message")
    items = [{"type": f"response.output_item.{what}", "output_index": index, "item": {"type": kind}}
             for index, kind in enumerate(kinds) for what in ("added", "done")]  # fmt: skip
    make = asked(RESPONSES, stream=True, **one).events
    assert make is not None
    found = [json.loads(sse.parsed(event)[1]) for event in sse.events(make().block(sent(*items)))]
    assert [(event["output_index"], event["item"]["type"]) for event in found] == [
        (0, "function_call")] * 2 + [(1, "message")] * 2  # fmt: skip


def test_two_calls_that_are_equal_are_two() -> None:
    call = {"type": "tool_use", "id": "x", "name": "f", "input": {}}
    change = asked(MESSAGES, tool_choice={"type": "auto", "disable_parallel_tool_use": True}).answer
    assert change is not None
    assert change({"content": [dict(call), dict(call)]})["content"] == [call]


def test_one_call_of_responses() -> None:
    one: dict[str, Any] = {"tools": [{"type": "function", "name": "get_weather"}], "parallel_tool_calls": False}
    assert len(answer("resp tool two").json()["output"]) == 2
    assert len(whole(RESPONSES, "resp tool two", **one)["output"]) == 1
    events = streamed(RESPONSES, "resp tool two stream", **one)
    assert {event["output_index"] for event in events if "output_index" in event} == {0}
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    assert len(events[-1]["response"]["output"]) == 1


ERRORS = {
    ("chat too long", "sglang-router"): "max_completion_tokens is too large: 100000.",
    ("chat too long", "smg"): "max_completion_tokens is too large: 100000.",
    ("chat too long stream", "sglang-router"): "max_completion_tokens is too large: 100000.",
    ("chat too long stream", "smg"): "max_completion_tokens is too large: 100000.",
    ("msg toolong", "smg"): "max_completion_tokens is too large: 100000.",
    ("msg toolong stream", "smg"): "max_completion_tokens is too large: 100000.",
    ("resp toolong", "smg"): "Requested token count exceeds the model's maximum context length of 4096 tokens.",
    ("chat strict mix", "smg"): "Cannot use strict tool with non-strict tool in the same request",
    ("embeddings", "smg"): "Embeddings not implemented",
    ("completion ids", "sglang-router"): "Failed to deserialize the JSON body into the target type: prompt:",
}


@pytest.mark.parametrize(("name", "router"), ERRORS)
def test_an_errors_own_words_are_found_in_any_wrapping(name: str, router: str) -> None:
    assert errors.words(answer(name, router).text.encode()).startswith(ERRORS[name, router])


@pytest.mark.parametrize("name", ["chat stream", "completion stream", "msg stream", "resp tool two stream"])
def test_a_whole_stream_is_told_from_one_that_was_cut(name: str) -> None:
    raw = answer(name).text.encode()
    assert sse.is_whole(raw[-512:])
    events = list(sse.events(raw.rstrip(b"\n") + b"\n\n"))
    assert not sse.is_whole(b"".join(events[:-1])[-512:]) or b"response" in events[-1]


def test_models_in_both_forms() -> None:
    facts = Facts("m", "smg", None, 1)
    one = {"id": "m", "object": "model", "created": 1, "owned_by": "dsv4-pd"}
    assert dialects.models(facts, "", anthropic=False) == {"object": "list", "data": [one]}
    assert dialects.models(facts, "m", anthropic=False) == one
    assert dialects.models(facts, "m", anthropic=True)["created_at"] == "1970-01-01T00:00:01Z"
    assert dialects.models(facts, "", anthropic=True)["has_more"] is False
    with pytest.raises(errors.Refusal) as caught:
        dialects.models(facts, "x", anthropic=False)
    assert caught.value.status == 404
