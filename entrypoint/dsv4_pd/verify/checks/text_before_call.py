"""What the model writes before a tool call arrives whole: a streaming parser may swallow it."""

from __future__ import annotations

from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped
from dsv4_pd.verify.checks.tool_call import NEXT, fault_in
from dsv4_pd.verify.compare import both, difference

_ASK = "First say in one sentence what you will do, then call the tool. What is the weather in Paris?"


def check(subject: Subject) -> Result:
    """Thought, text and call in one answer, whole against streamed."""
    options = {"tools": [prompts.WEATHER_TOOL], "max_tokens": 512, **prompts.THINK}
    whole, streamed, trouble = both(subject.api, _ASK, **options)
    if trouble:
        return trouble
    if found := difference(whole, streamed):
        return failed(
            f"streamed and whole answer differ: {found}", "report it: text before a call is lost in one of them"
        )
    if not whole.calls:
        return skipped("the model answered without a call, so nothing stood before one")
    if fault := fault_in(whole, ["Paris"]):
        return failed(f"whole answer: {fault}", NEXT)
    before = "content" if whole.content.strip() else "reasoning" if whole.reasoning.strip() else ""
    if not before:
        return skipped("the model wrote nothing before its call")
    text = (whole.content if before == "content" else whole.reasoning).strip()
    return passed(f"{before} {text[:50]!r} before the call, streamed the same", part=before)
