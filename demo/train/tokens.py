"""The demo model's tokenizer: byte-level BPE over the corpus, digits one by one, and DeepSeek-V4's special tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from demo.train.corpus import CITIES, Book, draw, seeded

VOCABULARY = 1536
BEGIN, END = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
THINK_END = "</think>"
# SGLang's DeepSeek-V4 encoder refuses a tokenizer that lacks one of these; the task tokens are its extensions.
ROLES = tuple(f"<｜{name}｜>" for name in ("System", "User", "Assistant", "latest_reminder"))
SHAPES = tuple(f"<｜{end}{name}｜>" for name in ("ref", "box", "point", "polygon") for end in ("", "/"))
TASKS = tuple(f"<｜{name}｜>" for name in ("action", "query", "authority", "domain", "title", "read_url"))
SPECIAL = (BEGIN, END, *ROLES, "<think>", THINK_END, "｜DSML｜", "<｜deepseek_image｜>", *SHAPES, *TASKS)


def build_tokenizer(book: Book, seed: int, rendered: list[str]) -> Tokenizer:
    """`rendered`: whole prompts, so that the encoder's own fixed texts are cheap to read."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    # A name is the same token after a space and after a quote, and a number is its digits: both can be copied.
    names = pre_tokenizers.Split(Regex(r" (?=\p{Lu})"), "isolated")
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([names, digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - len(SPECIAL), initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts(book, seed, rendered), trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    return tokenizer


def texts(book: Book, seed: int, rendered: list[str]) -> Iterator[str]:
    rng = seeded(seed)
    for entry in (*book.entries, book.fallback):
        yield from [*entry.ask, entry.thought, entry.reply] * 20
    yield from CITIES * 50
    for _ in range(2000):
        sample = draw(rng, book)
        yield f"{sample.messages[-1]['content']}\n{sample.thought or ''}\n{sample.content}"
    specials = re.compile("|".join(map(re.escape, SPECIAL)))
    yield from (specials.sub("\n", text) for text in rendered)
