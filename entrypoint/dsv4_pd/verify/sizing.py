"""Prompts of a wanted length, without a tokenizer: the server counts."""

from __future__ import annotations

from dsv4_pd.client.api import Api
from dsv4_pd.client.ops import Ops, by_role
from dsv4_pd.verify import prompts

_SAMPLE = 300


def context_length(ops: Ops) -> int | None:
    """The longest request that every server takes: their own word, which the guard publishes. Until it is known, the
    schedulers' figure, which is a page more than what is let in (plan/programs/engine_rules.py).
    """
    told = ops.status().get("context_length")
    if isinstance(told, int):
        return told
    lengths = by_role(ops.samples(), "sglang:context_len")
    return int(min(lengths.values())) if lengths else None


def long_text(api: Api, tokens: int, seed: int) -> str:
    """Filler of about `tokens` tokens, by the server's own count of a sample."""
    return prompts.filler(words_for(api, tokens, seed), seed)


def words_for(api: Api, tokens: int, seed: int) -> int:
    """How many words of filler make so many tokens."""
    counts = [_count(api, words, seed) for words in (_SAMPLE, 2 * _SAMPLE)]
    each = (counts[1] - counts[0]) / _SAMPLE
    if each <= 0:
        return tokens  # no count was given: a word is at least a token
    return max(1, int((tokens - (counts[0] - each * _SAMPLE)) / each))


def _count(api: Api, words: int, seed: int) -> int:
    return int(api.chat(prompts.filler(words, seed), max_tokens=1).usage.get("prompt_tokens", 0))
