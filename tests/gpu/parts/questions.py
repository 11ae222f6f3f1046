"""What the pair is asked: questions of the corpus that the tiny model was trained on, and texts with a fact in them."""

from __future__ import annotations

import random

WORDS = [
    "the",
    "server",
    "reads",
    "a",
    "prompt",
    "and",
    "the",
    "cache",
    "holds",
    "keys",
    "and",
    "values",
    "of",
    "every",
    "token",
    "while",
    "decode",
    "writes",
    "one",
    "word",
    "then",
    "the",
    "next",
    "word",
    "for",
    "the",
    "answer",
    "and",
    "a",
    "letter",
    "crosses",
    "the",
    "bridge",
    "in",
    "the",
    "morning",
    "to",
    "the",
    "other",
    "side",
]

# (question, what a right answer holds)
QUESTIONS = [
    ("What is the capital of France?", "Paris"),
    ("What is the capital of Japan?", "Tokyo"),
    ("What is the capital of Italy?", "Rome"),
    ("Who are you?", "demo"),
    ("What is a token?", "token"),
    ("What is seven times six?", "42"),
    ("Repeat: 48213", "48213"),
    ("Repeat: bridge", "bridge"),
]


def needles(sizes: tuple[int, ...] = (60, 200, 600, 1500, 3000), seed: int = 5) -> list[tuple[str, str]]:
    """A code in a text of so many words, a third of the way in, and the question for it."""
    rng = random.Random(seed)
    made = []
    for size in sizes:
        code = "".join(rng.choice("0123456789") for _ in range(4))
        before, after = (" ".join(rng.choice(WORDS) for _ in range(n)) for n in (size // 3, size - size // 3))
        made.append((f"{before} Remember: the code is {code}. {after} What is the code?", code))
    return made
