"""A prompt beyond the limit is refused with a clean 400 that says the limit, and harms nobody."""

from __future__ import annotations

from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped
from dsv4_pd.verify.sizing import context_length, long_text

_FACTOR = 1.3
_PROMPT = 60.0  # seconds; a refusal needs no computing


def check(subject: Subject) -> Result:
    """One third more than fits, then a question as usual."""
    limit = context_length(subject.ops)
    if limit is None:
        return skipped("no server reports its context length")
    reply = subject.api.chat(
        long_text(subject.api, int(limit * _FACTOR), subject.options.seed), max_tokens=8, timeout=_PROMPT
    )
    if reply.status != 400:
        said = reply.error[:200] or reply.content[:80]
        return failed(f"status {reply.status}, expected 400; {said}", "report it: clients can't tell it from an outage")
    if str(limit) not in reply.error.replace(",", "") and "context" not in reply.error.lower():
        return failed(f"the error does not state the limit: {reply.error[:200]!r}", "report it")
    after = subject.api.chat(prompts.GREETING, max_tokens=16)
    if after.status != 200 or after.empty:
        return failed(f"the next request failed: {after.status} {after.error[:200]}", "restart, and report it")
    return passed(f"400 in {reply.seconds:.1f} s, and the next request is served", error=reply.error[:500])
