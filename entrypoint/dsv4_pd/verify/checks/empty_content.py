"""No answer is empty in bursts of thinking, tool-bearing and plain streams: one quiet request proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dsv4_pd.client.api import Reply
from dsv4_pd.verify import prompts
from dsv4_pd.verify.base import Result, Subject, failed, passed


def check(subject: Subject) -> Result:
    """Bursts of streams, all kinds mixed."""
    options = subject.options
    replies: list[Reply] = []
    with ThreadPoolExecutor(options.burst_size) as pool:
        for burst in range(options.bursts):
            replies += pool.map(lambda kind: subject.api.chat(kind[0], stream=True, max_tokens=192, **kind[1]),
                                list(_mixture(burst, options.burst_size)))  # fmt: skip
    broken = [f"status {r.status} {r.error[:120]}" if r.status != 200 else "cut" for r in replies if not r.done]
    empty = [reply for reply in replies if reply.done and (reply.empty or (reply.reasoning and not _answered(reply)))]
    total = len(replies)
    if broken or empty:
        return failed(
            f"of {total} streams {len(empty)} were empty and {len(broken)} broken{': ' + broken[0] if broken else ''}",
            "repeat with --launches 3: corruption that differs from start to start points at kernels or the KV link",
            empty=len(empty),
            broken=len(broken),
            total=total,
        )
    return passed(
        f"{total} streams in {options.bursts} bursts of {options.burst_size}: none empty, none cut", total=total
    )


def _answered(reply: Reply) -> bool:
    return bool(reply.content.strip() or reply.calls or reply.finish_reason == "length")


def _mixture(burst: int, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for index in range(size):
        turn = burst * size + index
        question = prompts.QUESTIONS[turn % len(prompts.QUESTIONS)]
        if turn % 4 == 1:
            yield question, dict(prompts.THINK)
        elif turn % 4 == 3:
            yield "What is the weather in Rome?", {"tools": [prompts.WEATHER_TOOL], **prompts.THINK}
        else:
            yield question, {}
