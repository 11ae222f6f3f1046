"""What verify says to the model: questions that the demo model and DeepSeek-V4-Flash both answer."""

from __future__ import annotations

import random
from typing import Any

THINK: dict[str, Any] = {"chat_template_kwargs": {"thinking": True}}
GREETING = "Hello!"
QUESTIONS = (
    "What is the capital of France?",
    "What is the capital of Japan?",
    "Who are you?",
    "What is a token?",
    "Name three colours.",
    "Count from one to ten.",
    "What is seven times six?",
    "List the days of the week.",
)
WEATHER_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
# Plain words that both tokenizers know, so that a text of them has a steady length in tokens.
_TEXT = (
    "the server reads a prompt and the cache holds keys and values of every token while decode writes one word "
    "then the next word for the answer and a letter crosses the bridge in the morning to the other side"
)
_WORDS = tuple(_TEXT.split())


def filler(words: int, seed: int) -> str:
    """Text without meaning; the same seed gives the same text."""
    rng = random.Random(seed)  # noqa: S311
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def needle(words: int, depth: float, code: str, seed: int) -> str:
    """A text with a code in it at `depth` (0: first, 1: last), and the question for it."""
    before = round(words * depth)
    parts = (
        filler(before, seed),
        f"Remember: the code is {code}.",
        filler(words - before, seed + 1),
        "What is the code?",
    )
    return " ".join(part for part in parts if part)
