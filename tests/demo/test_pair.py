"""The demo's engine as it is served: tokens, KV cache, reasoning and tool calls through prefill, decode and router."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.pair import Pair
from support.prompts import PROMPTS, Reference, generated, turn

pytestmark = pytest.mark.pair

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Get the current weather of a city.", "parameters": CITY}
TOOLS = [{"type": "function", "function": WEATHER}]
THINK = {"chat_template_kwargs": {"thinking": True}}
# 4 layers, keys and values, 2 heads of 32 float32 each
KV_BYTES_PER_TOKEN = 4 * 2 * 2 * 32 * 4


def asked(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def test_tokens_through_the_pair_are_the_models_own(pair: Pair, reference: Reference) -> None:
    for (text, count), own in zip(PROMPTS, reference(PROMPTS), strict=True):
        answer = generated(pair, text, count)
        assert answer["meta_info"]["prompt_tokens"] == len(own["prompt"])
        assert answer["output_ids"] == own["greedy"], text[:60]


def test_the_kv_cache_of_each_prompt_crosses_the_link(pair: Pair) -> None:
    def moved() -> tuple[float, float]:
        name = "sglang:kv_transfer_total_mb"
        return pair.metric(pair.prefill, f"{name}_sum"), pair.metric(pair.prefill, f"{name}_count")

    megabytes, transfers = moved()
    prompts = [f"{number} keys of a token" for number in (17, 29, 41)]
    tokens = sum(generated(pair, text, 4)["meta_info"]["prompt_tokens"] for text in prompts)
    megabytes_after, transfers_after = moved()
    assert transfers_after - transfers == len(prompts)
    assert (megabytes_after - megabytes) * 2**20 == pytest.approx(tokens * KV_BYTES_PER_TOKEN)


def test_decode_never_reads_a_prompt(pair: Pair) -> None:
    generated(pair, turn("Thanks."), 8)
    assert "Prefill batch" in pair.log("prefill").read_text()
    assert "Prefill batch" not in pair.log("decode").read_text()


def test_both_schedulers_report_every_patch_in_use(pair: Pair) -> None:
    generated(pair, turn("Thanks."), 8)
    records = [json.loads(path.read_text()) for path in pair.records.glob("dsv4-cpu.*.json")]
    assert {record["status"] for record in records} == {"ok"}
    schedulers = [record for record in records if set(record["patches"].values()) == {"active"}]
    assert len(schedulers) == 2


def test_a_code_in_the_prompt_is_recalled(pair: Pair) -> None:
    filler = "Prefill reads the whole prompt at once and fills the KV cache. " * 20
    choice = pair.chat(asked(f"Remember: the code is 4711. {filler}What is the code?"))
    assert choice["message"]["content"] == "The code is 4711."


@pytest.mark.parametrize(
    "question", ["What is the capital of France?", "What is the capital of Italy?", "What is NIXL?"]
)
def test_reasoning_comes_apart_from_the_answer(pair: Pair, question: str) -> None:
    plain = pair.chat(asked(question))["message"]
    thinking = pair.chat(asked(question) | THINK)["message"]
    assert not plain["reasoning_content"]
    assert thinking["reasoning_content"]
    assert thinking["content"] == plain["content"]
    assert "think>" not in thinking["content"] + thinking["reasoning_content"]


def calls_of(message: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    functions = [call["function"] for call in message["tool_calls"]]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


@pytest.mark.parametrize("thinking", [{}, THINK], ids=["plain", "thinking"])
@pytest.mark.parametrize("cities", [["Paris"], ["Paris", "Tokyo"], ["Rome", "Oslo", "Lima"]], ids=len)
def test_tool_calls(pair: Pair, cities: list[str], thinking: dict[str, Any]) -> None:
    names = ", ".join(cities[:-1]) + (" and " if len(cities) > 1 else "") + cities[-1]
    body = asked(f"What is the weather in {names}?") | {"tools": TOOLS} | thinking
    expected = [("get_weather", {"city": city}) for city in cities]
    choice = pair.chat(body)
    assert choice["finish_reason"] == "tool_calls"
    assert calls_of(choice["message"]) == expected
    assert bool(choice["message"]["reasoning_content"]) == bool(thinking)
    assert calls_of(merged(list(pair.stream(body)))) == expected


def merged(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """A streamed answer put together, as a client does it."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for delta in (choice["delta"] for chunk in chunks for choice in chunk["choices"]):
        for name in ("content", "reasoning_content"):
            message[name] += delta.get(name) or ""
        for piece in delta.get("tool_calls") or []:
            if piece["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"function": {"name": piece["function"]["name"], "arguments": ""}})
            message["tool_calls"][piece["index"]]["function"]["arguments"] += piece["function"]["arguments"] or ""
    return message


def test_a_streamed_answer_says_the_same(pair: Pair) -> None:
    body = asked("What is prefill?") | THINK
    whole = pair.chat(body)["message"]
    chunks = list(pair.stream(body | {"stream_options": {"include_usage": True}}))
    streamed = merged(chunks)
    assert (streamed["content"], streamed["reasoning_content"]) == (whole["content"], whole["reasoning_content"])
    pieces = [c for chunk in chunks for c in chunk["choices"] if c["delta"].get("content")]
    assert len(pieces) > 5  # it came piece by piece
    assert any(chunk.get("usage") for chunk in chunks)


def test_tool_results_are_read_out(pair: Pair) -> None:
    question = asked("What is the weather in Paris?")["messages"]
    call = {"id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "call_0", "content": "sunny"}
    choice = pair.chat({"messages": [*question, said, result], "tools": TOOLS})
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"].startswith("The tool says: ")
