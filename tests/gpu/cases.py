"""What servers and oracle are asked: rows of the corpus, cut into a prompt and the tokens that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy

SEED = 7


@dataclass(frozen=True, slots=True)
class Case:
    """`count` requests at once with about `context` tokens each; `steps` tokens are forced after each prompt."""

    name: str
    count: int
    context: int
    steps: int
    judged: int  # requests that the oracle reads as well: its attention is plain PyTorch

    def prompts(self, corpus: Path) -> list[tuple[list[int], list[int]]]:
        """(prompt, forced tokens) of each request; lengths differ, so that no two rows end on one page boundary."""
        rng = numpy.random.default_rng(SEED + self.count)
        rows = pool(corpus, self.context)
        made = []
        for number in range(self.count):
            length = max(16, self.context - int(rng.integers(0, max(1, self.context // 4))) * (self.count > 1))
            text = text_of(rows, number, length + self.steps)
            made.append((text[:length], text[length:]))
        return made


def pool(corpus: Path, context: int) -> numpy.ndarray:
    """The held-out rows of the longest length that a context still fills."""
    data = numpy.load(corpus)
    lengths = sorted(int(name.removeprefix("tokens_")) for name in data.files if name.startswith("tokens_"))
    chosen = next((length for length in reversed(lengths) if length <= context), lengths[0])
    return data[f"tokens_{chosen}"][-64:]


def text_of(rows: numpy.ndarray, number: int, length: int) -> list[int]:
    """Rows one behind the other, from the end of the corpus."""
    whole: list[int] = []
    step = 0
    while len(whole) < length:
        whole += rows[-1 - (number * 17 + step) % len(rows)].tolist()
        step += 1
    return whole[:length]


CASES = (
    Case("1 x 300", 1, 300, 48, 1),
    Case("1 x 30000", 1, 30000, 32, 1),
    Case("8 x 8000", 8, 8000, 32, 4),
    Case("40 x 1500", 40, 1500, 32, 8),
    Case("64 x 700", 64, 700, 32, 8),
)
