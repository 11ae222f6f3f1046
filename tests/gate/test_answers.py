"""An error's words: the reason stays, what is the engine's own business goes."""

from __future__ import annotations

import re
from typing import Any

import pytest

INTERNAL = re.compile(r'File "/|Traceback|/site-packages/|/project/|\.py\b|sglang\.|0x[0-9a-f]{6,}')


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ('1 validation error:\n  {} \n  File "/opt/x/http_server.py", line 930, in f\n    POST /generate', "1"),
        ("Failed to compile json grammar: [07:39:27] /project/cpp/json_schema_converter.cc:4175: properties must be an "
         "object\n", "Failed to compile json grammar: properties must be an object"),
        ("Internal server error: bad\nTraceback (most recent call last):\n  File \"/a.py\"\nX: y", "error: bad"),
        ("<sglang.srt.managers.x.Y object at 0x7f0011223344> is not JSON serializable", "is not JSON serializable"),
        ("sglang.srt.server.Wrong: the value is 5", "the value is 5"),
        ("can't read /opt/engine/lib/python3.11/site-packages/sglang/srt/utils/common.py:12 now", "can't read"),
    ],
    ids=range(6),
)  # fmt: skip
def test_internals_go_and_the_reason_stays(message: str, kept: str) -> None:
    from dsv4_gate.answers import plain_words

    found = plain_words(message)
    assert not INTERNAL.search(found), found
    assert kept in found


@pytest.mark.parametrize(
    "message",
    [
        "The input (9006 tokens) is longer than the model's context length (4096 tokens).",
        "top_p must be in (0, 1], got 1.5.",
        "prompt: see https://example.org/a/b.html for the form",
        "n is 0, expected a whole number of at least 1",
    ],
)
def test_other_words_stay(message: str) -> None:
    from dsv4_gate.answers import plain_words

    assert plain_words(message) == message


def test_pydantic_says_where_and_what_and_repeats_no_input() -> None:
    from dsv4_gate.answers import validation_words

    errors: list[dict[str, Any]] = [
        {"type": "int", "loc": ("body", "max_tokens"), "msg": "Input should be a valid integer", "input": "SECRET"},
        {"type": "missing", "loc": ("body",), "msg": "Field required", "input": {}},
    ]
    assert validation_words(errors) == "max_tokens: Input should be a valid integer; Field required"
    assert len(validation_words([{"loc": ("body", "x"), "msg": "y" * 5000}] * 1000)) < 2100
    union: list[dict[str, Any]] = [
        {"type": "string_type", "loc": ("body", "text", "str"), "msg": "Input should be a valid string"},
        {"type": "value_error", "loc": ("body", "messages", 0, "function-after[f(), P]", "role"), "msg": "bad role"},
        {"type": "is_instance_of", "loc": ("body", "is-instance[AbortReq]"), "msg": "an instance of AbortReq"},
        {"type": "json_invalid", "loc": ("body", 1), "msg": "JSON decode error"},
    ]
    assert validation_words(union) == (
        "text: Input should be a valid string; messages.0.role: bad role; JSON decode error"
    )
    assert validation_words([])
