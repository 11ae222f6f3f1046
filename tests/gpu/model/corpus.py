"""What the tiny model is trained on and asked: the demo's chat samples, and texts full of facts asked for later.

    python -m gpu.model.corpus OUT.npz          in the engine's environment, on any machine; 31,000 rows: two minutes

Rows of one length lie together: `tokens_512`, `answers_512` (1: this token is an answer's, so it is learned), ...
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy

from demo.train.corpus import Book, any_setting, draw, read_book, seeded, word_salad
from demo.train.encoding import Encoder
from demo.train.tokens import BEGIN

SEED = 20_261_130
ROOT = Path(__file__).resolve().parents[3]
ROWS = {512: 24000, 1024: 6000, 4096: 1200}  # the last ones of each length are held out (asked.py)
CHATS = 0.45  # of the rows of 512; longer ones are facts alone
THINGS = (
    "code", "key", "number", "answer", "letter", "word", "morning", "bridge", "server", "cache", "token", "prompt",
)  # fmt: skip
TEXT = (
    "the server reads a prompt and the cache holds keys and values of every token while decode writes one word "
    "then the next word for the answer and a letter crosses the bridge in the morning to the other side"
)


@dataclass(slots=True)
class Row:
    tokens: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    def add(self, tokens: list[int], answer: bool = False) -> None:
        self.tokens += tokens
        self.answers += [int(answer)] * len(tokens)


def chats(encoder: Encoder, book: Book, rng: random.Random, length: int) -> Row:
    """Chat samples one behind the other; a text of this kind is cut where the row ends."""
    row = Row()
    while len(row.tokens) < length:
        example = encoder.encode(draw(rng, book, any_setting(rng)))
        row.add(example.prompt)
        row.add(example.answer, answer=True)
    return row


def facts(encoder: Encoder, book: Book, rng: random.Random, length: int) -> Row:
    """Things are given numbers and asked for later, some at once, some thousands of tokens on."""
    row, known = Row(), dict[str, str]()

    def say(text: str, answer: bool = False) -> None:
        row.add(encoder.tokenizer.encode(text, add_special_tokens=False).ids, answer)

    say(BEGIN)
    while len(row.tokens) < length:
        if known and rng.random() < 0.55:
            thing = rng.choice(sorted(known))
            say(f" What is the {thing}? The {thing} is ")
            say(f"{known[thing]}", answer=True)
            say(".")
        else:
            thing = rng.choice(THINGS)
            known[thing] = "".join(rng.choice("0123456789") for _ in range(4))
            say(f" Remember: the {thing} is {known[thing]}.")
        if rng.random() < 0.3:
            count = rng.choice((3, 10, 30, 80))
            say(" " + (word_salad(rng, book, count) if rng.random() < 0.5 else words(rng, count)))
    return row


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(TEXT.split()) for _ in range(count))


def rows(encoder: Encoder, book: Book, rng: random.Random, length: int, count: int) -> Iterator[Row]:
    for _ in range(count):
        make = chats if length == min(ROWS) and rng.random() < CHATS else facts
        yield make(encoder, book, rng, length)


def main() -> None:
    from tokenizers import Tokenizer

    book, rng = read_book(), seeded(SEED)
    encoder = Encoder(Tokenizer.from_file(str(ROOT / "demo/model/tokenizer.json")))
    out: dict[str, numpy.ndarray] = {}
    for length, count in ROWS.items():
        made = list(rows(encoder, book, rng, length, count))
        out[f"tokens_{length}"] = numpy.array([row.tokens[:length] for row in made], dtype=numpy.uint16)
        out[f"answers_{length}"] = numpy.array([row.answers[:length] for row in made], dtype=numpy.uint8)
    numpy.savez_compressed(sys.argv[1], **out)


if __name__ == "__main__":
    main()
