"""Bodies that would cost much: judged before the engine validates them."""

from __future__ import annotations

from typing import Any

import pytest

CONTEXT, LONGEST = 100, 8
TOO_LONG = "is longer than the model's context length (100 tokens)"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": "a" * 801}, TOO_LONG),
        ({"prompt": ["a", "b" * 801]}, TOO_LONG),
        ({"prompt": [5] * 101}, TOO_LONG),
        ({"input_ids": [[5], [5] * 101]}, TOO_LONG),
        ({"text": "a" * 801}, TOO_LONG),
        ({"messages": [{"role": "user", "content": "a" * 500}, {"role": "user", "content": "b" * 500}]}, TOO_LONG),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a" * 300}] * 3}]}, TOO_LONG),
        ({"messages": [], "tools": [{"function": {"description": "d" * 801}}]}, TOO_LONG),
        ({"messages": [], "system": [{"type": "text", "text": "d" * 801}]}, TOO_LONG),
        ({"input": [{"role": "user", "content": "a" * 801}]}, TOO_LONG),
        ({"input": "a", "instructions": "b" * 801}, TOO_LONG),
        ({"prompt": ["a", 5]}, "prompt mixes kinds"),
        ({"prompt": [{}] * 9}, "prompt mixes kinds"),
        ({"input_ids": [["a"]]}, "something else than token ids"),
        ({"messages": [{"role": "user", "content": [1] * 9}]}, "content holds something else than objects"),
        ({"messages": [1, 2]}, "messages holds something else than objects"),
        ({"tools": ["a"]}, "tools holds something else than objects"),
        ({"lora_path": [1] * 20_001}, "lora_path has 20001 entries"),
        ({"x": [[1] * 15_000] * 2}, "more than 20000 values"),
        ({"x": {str(i): i for i in range(20_001)}}, "more than 20000 values"),
    ],
    ids=range(20),
)
def test_what_costs_much_is_refused_in_words(body: dict[str, Any], words: str) -> None:
    from dsv4_gate.bodies import body_refusal

    assert words in str(body_refusal(body, CONTEXT, LONGEST))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": "a" * 792},
        {"prompt": ["a" * 700] * 9},
        {"input_ids": [[5] * 99] * 50},
        {"prompt": None, "text": 5},
        {"messages": [{"role": "user", "content": "a" * 390}, {"role": "user", "content": "b" * 390}]},
        {"messages": [{"role": "user", "content": None, "tool_calls": [{"id": "x"}]}]},
        {"input_embeds": [[0.5] * 300] * 100},
        [],
        "text",
    ],
    ids=range(10),
)
def test_the_rest_passes(body: Any) -> None:
    from dsv4_gate.bodies import body_refusal

    assert body_refusal(body, CONTEXT, LONGEST) is None


def test_only_bodies_that_could_break_a_rule_are_parsed() -> None:
    from dsv4_gate.bodies import worth_a_look

    assert not worth_a_look(b'{"prompt": "hello, world"}', 4096, 17)
    assert worth_a_look(b"a" * 70_000, 4096, 17)
    assert worth_a_look(b"[1," * 5_000, 4096, 17)
    assert worth_a_look(b"[[" * 20_000, 524_288, 128)
    assert not worth_a_look(b"a" * 7_000_000, 524_288, 128), "half a million tokens of plain text take no second parse"
