"""Tokenizing beside the event loop: a long prompt takes its time, and no other request waits for it.

The tokenizer is Rust and lets go of the interpreter, so a thread is enough. The engine tokenizes chats in threads by
itself; plain prompts (/generate, /v1/completions) it tokenizes on the loop that serves everyone: a second for each MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

INLINE_CHARACTERS = 2048  # about two milliseconds: less than a thread's turn costs on a busy loop
LONG_CHARACTERS = 1 << 17  # longer ones wait for each other, so that they leave threads for the rest
LONG_AT_ONCE = 2
SHORT_AT_ONCE = 8


@cache
def _pool(long: bool) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(LONG_AT_ONCE if long else SHORT_AT_ONCE, f"tokenize-{'long' if long else 'short'}")


async def aside(work: Callable[[], Coroutine[Any, Any, Any]], characters: int) -> Any:
    """The result of a coroutine that never waits, made in a thread where its text is long."""
    if characters <= INLINE_CHARACTERS:
        return await work()
    return await asyncio.get_running_loop().run_in_executor(_pool(characters > LONG_CHARACTERS), driven, work)


def driven(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Runs it to its end without a loop.

    >>> async def three(): return 3
    >>> driven(three)
    3
    """
    coroutine = work()
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("the engine's tokenizing waits for something now: it must run on the event loop")


def characters(texts: Any) -> int:
    """Of one text, or of a list of texts (or pairs of texts).

    >>> characters("abc"), characters(["ab", ["c", "d"]])
    (3, 4)
    """
    return len(texts) if isinstance(texts, str) else sum(map(characters, texts or ()))
