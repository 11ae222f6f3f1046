"""One request of every class that makes the engine use a kernel for the first time. Pure.

From the GPU ring's record (docs/gpu.md, `ready`): what a class used first after READY. A guard that has sent all of
them knows that no client meets a compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

SHORT, CROSSES_DECODE_KERNEL = 20, 130  # tokens; the engine has other kernels for at most 64 rows
FRESH_LONG, FRESH_SHORT = 300, 20  # tokens behind a cached beginning, on both sides of those 64
BATCH_PROMPT, BATCH_ANSWER = 200, 16


@dataclass(frozen=True, slots=True)
class RequestClass:
    """`count` requests at once. Equal seeds of single requests begin alike: the later one finds the prefix cached."""

    name: str
    count: int
    prompt_tokens: int
    seed: int
    fresh_tokens: int = 0  # behind `prompt_tokens` that were sent before
    answer_tokens: int = 8

    @property
    def tokens(self) -> int:
        """Of one request, answer included."""
        return self.prompt_tokens + self.fresh_tokens + self.answer_tokens


def classes(chunk: int, context: int, running: int) -> tuple[RequestClass, ...]:
    """What fits this appliance, smallest first.

    chunk: tokens prefilled in one step. context: of prompt and answer. running: requests that decode together.
    """
    one, several = chunk // 2, min(2 * chunk + chunk // 2, context * 6 // 10)
    single = (
        RequestClass("short prompt", 1, SHORT, 1),
        RequestClass("prompt of more than 64 tokens", 1, CROSSES_DECODE_KERNEL, 2),
        RequestClass("prompt of one chunk", 1, one, 3),
        *([RequestClass("prompt of several chunks", 1, several, 4)] if several > chunk else []),
        RequestClass("prefix hit", 1, one, 3, fresh_tokens=FRESH_LONG),
        RequestClass("prefix hit, short rest", 1, one, 3, fresh_tokens=FRESH_SHORT),
    )
    batches = (
        RequestClass(f"batch of {size}", size, BATCH_PROMPT, 10 + number, answer_tokens=BATCH_ANSWER)
        for number, size in enumerate(batch_sizes(running))
    )
    return tuple(kind for kind in (*single, *batches) if kind.tokens <= context)


def batch_sizes(running: int) -> tuple[int, ...]:
    """The engine's allocators are compiled for powers of two, so one batch of each, and the largest.

    >>> batch_sizes(64), batch_sizes(6), batch_sizes(1)
    ((2, 4, 8, 16, 32, 64), (2, 4, 6), ())
    """
    powers = [1 << bit for bit in range(1, running.bit_length()) if 1 << bit < running]
    return (*powers, running) if running > 1 else ()


def words(kind: RequestClass, number: int) -> tuple[tuple[int, int], ...]:
    """(seed, count) of each run of words in the prompt of the class's nth request; one word is about one token."""
    first = kind.seed * 1000 + number
    fresh = ((first + 500 + kind.fresh_tokens, kind.fresh_tokens),) if kind.fresh_tokens else ()
    return ((first, kind.prompt_tokens), *fresh)
