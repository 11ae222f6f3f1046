"""Prompts whose greedy tokens are compared, and how a pair is asked for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.pair import Pair

BEGIN, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
Reference = Callable[[list[tuple[str, int]]], list[dict[str, Any]]]


def turn(question: str) -> str:
    return f"{BEGIN}{USER}{question}{ASSISTANT}</think>"


PROMPTS = [
    (turn("Who are you?"), 48),
    (turn("Tell me a story."), 160),
    (turn("The key is 8035. Monday is the day of the bridge and of the cache. What is the key?"), 16),
    ("The cache crosses the bridge", 32),  # no chat markup: the model has never seen the like
    (" ".join(f"Block {number} holds the keys and values of a token." for number in range(40)), 32),
]


def generated(pair: Pair, text: str, tokens: int) -> dict[str, Any]:
    body = {"text": text, "sampling_params": {"temperature": 0, "max_new_tokens": tokens}}
    answer: dict[str, Any] = pair.post("/generate", body)
    return answer
