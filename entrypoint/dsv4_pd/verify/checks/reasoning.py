"""Thoughts come apart from the answer, whole and streamed."""

from __future__ import annotations

from dsv4_pd.client.api import Reply
from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed
from dsv4_pd.verify.compare import both, difference

_TAGS = ("<think>", "</think>")
_NEXT = "the engine's --reasoning-parser must be deepseek-v4 on both roles: see dsv4-pd plan"


def check(subject: Subject) -> Result:
    """A question with thinking asked for."""
    whole, streamed, trouble = both(subject.api, prompts.QUESTIONS[0], max_tokens=256, **prompts.THINK)
    if trouble:
        return trouble
    for how, reply in (("whole", whole), ("streamed", streamed)):
        if fault := _fault(reply):
            return failed(f"{how} answer: {fault}", _NEXT, reasoning=reply.reasoning, content=reply.content)
    if found := difference(whole, streamed):
        return failed(f"streamed and whole answer differ: {found}", "report it: the parser loses text in one of them")
    return passed(
        f"thought {whole.reasoning.strip()[:50]!r} apart from {whole.content.strip()[:50]!r}, streamed the same",
        reasoning=whole.reasoning,
        content=whole.content,
    )


def _fault(reply: Reply) -> str | None:
    if not reply.reasoning.strip():
        return "no reasoning_content, though thinking was asked for"
    if not reply.content.strip():
        return "reasoning, but no answer"
    if any(tag in reply.content for tag in _TAGS):
        return f"think tags inside the answer: {reply.content[:80]!r}"
    return None
