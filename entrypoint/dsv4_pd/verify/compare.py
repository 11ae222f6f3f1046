"""Asking twice, whole and streamed, and saying how two answers differ."""

from __future__ import annotations

from typing import Any

from dsv4_pd.client.api import Api, Reply
from dsv4_pd.verify.base import Result, failed


def both(api: Api, messages: Any, **options: Any) -> tuple[Reply, Reply, Result | None]:
    """The whole answer, the streamed one, and the failure when one did not come."""
    whole, streamed = (api.chat(messages, stream=stream, **options) for stream in (False, True))
    return whole, streamed, broken(whole) or broken(streamed, streamed=True)


def broken(reply: Reply, *, streamed: bool = False) -> Result | None:
    """The failure that this reply is by itself, or None."""
    how = "streamed" if streamed else "whole"
    if reply.status != 200 or reply.error:
        said = reply.error[:300] or "no body"
        return failed(f"{how} request: status {reply.status}: {said}", "dsv4-pd status says which program is at fault")
    if not reply.done:
        return failed(
            "the stream ended without [DONE]: it was cut in the middle",
            "decode died or something between cut the connection: see its log and dsv4-pd status",
        )
    return None


def difference(one: Reply, other: Reply) -> str | None:
    """The first part in which two answers differ, in words.

    >>> difference(Reply(200, content="abc"), Reply(200, content="abX"))
    "content: 'c' against 'X' at character 2"
    """
    for part in ("reasoning", "content"):
        a, b = getattr(one, part), getattr(other, part)
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            return f"{part}: {a[at : at + 20]!r} against {b[at : at + 20]!r} at character {at}"
    mine, theirs = ([(c.name, c.parsed()) for c in reply.calls] for reply in (one, other))
    return f"tool calls: {mine} against {theirs}" if mine != theirs else None
