"""A prompt close to the context limit is served; a start with much memory proves nothing about one."""

from __future__ import annotations

from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped
from dsv4_pd.verify.compare import broken
from dsv4_pd.verify.sizing import context_length, long_text

SHARE = 0.9
_ANSWER = 16


def check(subject: Subject) -> Result:
    """A prompt of nine tenths of the limit."""
    limit = context_length(subject.ops)
    if limit is None:
        return skipped("no server reports its context length")
    text = long_text(subject.api, int(limit * SHARE) - _ANSWER, subject.options.seed)
    reply = subject.api.chat(text, stream=True, max_tokens=_ANSWER, timeout=1800)
    if trouble := broken(reply, streamed=True):
        return trouble
    tokens = int(reply.usage.get("prompt_tokens", 0))
    if reply.empty:
        return failed(
            f"{tokens:,} tokens went in, nothing came out", "lower DSV4_CONTEXT_LENGTH and look at decode's log"
        )
    if tokens < limit * (SHARE - 0.15):
        return failed(
            f"only {tokens:,} of {limit:,} tokens were counted", "something in front of the engine truncates prompts"
        )
    return passed(
        f"{tokens:,} of {limit:,} tokens answered in {reply.seconds:.1f} s",
        prompt_tokens=tokens,
        limit=limit,
        seconds=round(reply.seconds, 2),
    )
