"""A plain question gets an answer, whole and streamed, and both are the same."""

from __future__ import annotations

from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed
from dsv4_pd.verify.compare import both, difference


def check(subject: Subject) -> Result:
    """One greeting, two ways."""
    whole, streamed, trouble = both(subject.api, prompts.GREETING, max_tokens=64)
    if trouble:
        return trouble
    if not whole.content.strip():
        return failed("the answer is empty", "ask again with curl; an empty answer at temperature 0 is a broken model")
    if found := difference(whole, streamed):
        return failed(
            f"streamed and whole answer differ: {found}", "report it: the same request must give the same text"
        )
    return passed(
        f"{whole.content.strip()[:60]!r} in {whole.seconds:.2f} s; the same in {streamed.chunks} chunks, [DONE] last",
        content=whole.content,
        seconds=round(whole.seconds, 3),
    )
