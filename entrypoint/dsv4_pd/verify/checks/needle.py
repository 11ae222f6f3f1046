"""A code hidden at several depths of a text is found: a KV cache that lost a block can't do that."""

from __future__ import annotations

import random

from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped
from dsv4_pd.verify.sizing import context_length, words_for

DEPTHS = (0.05, 0.5, 0.95)
_BIG = 32768  # a model with a context this long recalls from long texts
_SMALL_MODEL_WORDS = [40, 150]  # the demo's model finds 9 of 9 there, 8 of 9 in 300 words, 5 of 9 in 600


def check(subject: Subject) -> Result:
    """One code for each length and depth, at temperature 0."""
    limit = context_length(subject.ops)
    if limit is None:
        return skipped("no server reports its context length")
    rng = random.Random(subject.options.seed)  # noqa: S311
    lengths = _lengths(subject, limit)
    missed, found = [], 0
    for words in lengths:
        for depth in DEPTHS:
            code = str(rng.randrange(1000, 10000))
            reply = subject.api.chat(prompts.needle(words, depth, code, rng.randrange(10**6)), max_tokens=64)
            if code in reply.content:
                found += 1
            else:
                missed.append(f"{words} words, depth {depth:.0%}: {reply.content.strip()[:50]!r} instead of {code}")
    asked = len(lengths) * len(DEPTHS)
    if missed:
        return failed(
            f"{len(missed)} of {asked} codes not found: {missed[0]}",
            "compare with single mode (check equals_single): if that finds them, the KV cache arrives damaged",
            missed=missed,
        )
    return passed(f"{found} of {asked} codes found, in {', '.join(map(str, lengths))} words", words=lengths)


def _lengths(subject: Subject, limit: int) -> list[int]:
    if limit < _BIG:
        return _SMALL_MODEL_WORDS
    return [words_for(subject.api, tokens, subject.options.seed) for tokens in (4096, _BIG // 2, int(limit * 0.8))]
