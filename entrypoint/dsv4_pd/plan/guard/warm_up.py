"""One request of every class that makes the engine use a kernel for the first time. Pure.

From the GPU ring's record (docs/gpu.md, `ready`): what a class used first after READY. Two more are from the engine's
code: FlashInfer's sampling module is loaded by the first request that is not greedy (srt/layers/sampler.py), and the
grammar's kernels by the first answer under a schema (srt/constrained/xgrammar_backend.py). A guard that has sent all of
them knows that no client meets a compiler.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

SHORT, CROSSES_DECODE_KERNEL = 20, 130  # tokens; the engine has other kernels for at most 64 rows
FRESH_LONG, FRESH_SHORT = 300, 20  # tokens behind a cached beginning, on both sides of those 64
BATCH_PROMPT, BATCH_ANSWER = 200, 16
TOKEN_IDS = range(10, 250)  # single signs in every byte-level vocabulary, none of them special
SAMPLED = {"temperature": 0.8, "top_p": 0.9, "top_k": 40}
MIN_P = {"temperature": 0.8, "min_p": 0.05}  # another function of the same module, after renormalising
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
UNDER_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}}


@dataclass(frozen=True, slots=True)
class RequestClass:
    """`count` requests at once. Equal seeds of single requests begin alike: the later one finds the prefix cached."""

    name: str
    count: int
    prompt_tokens: int
    seed: int
    fresh_tokens: int = 0  # behind `prompt_tokens` that were sent before
    answer_tokens: int = 8
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # of the request's body
    chat: bool = False  # asked as a conversation: a schema is none of a plain completion's options

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
        RequestClass("sampled answer", 1, SHORT, 5, options=SAMPLED),
        RequestClass("sampled answer with min_p", 1, SHORT, 7, options=MIN_P),
        RequestClass("answer under a schema", 1, SHORT, 6, options=UNDER_SCHEMA, chat=True),
    )
    batches = (
        RequestClass(f"batch of {size}", size, BATCH_PROMPT, 10 + number, answer_tokens=BATCH_ANSWER)
        for number, size in enumerate(batch_sizes(running))
    )
    return tuple(kind for kind in (*single, *batches) if kind.tokens <= context)


def few(context: int, running: int) -> tuple[RequestClass, ...]:
    """For an engine that compiles nothing, a CPU's: what is used first is loaded, in a second or two."""
    kinds = (
        RequestClass("short prompt", 1, SHORT, 1, answer_tokens=2),
        RequestClass("prompt of more than 64 tokens", 1, CROSSES_DECODE_KERNEL, 2, answer_tokens=2),
        RequestClass("prefix hit", 1, CROSSES_DECODE_KERNEL, 2, fresh_tokens=FRESH_SHORT, answer_tokens=2),
        *([RequestClass("batch of 2", 2, SHORT, 10, answer_tokens=4)] if running > 1 else []),
    )
    return tuple(kind for kind in kinds if kind.tokens <= context)


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


def body(kind: RequestClass, number: int) -> dict[str, Any]:
    """The class's nth request, for the engine's own /generate: tokens by number, so that none too many are sent.

    An answer under a schema ends where the schema does, every other one after its tokens.
    """
    options = dict(kind.options)
    schema = options.pop("response_format", None)
    ends = {"json_schema": json.dumps(schema["json_schema"]["schema"])} if schema else {"ignore_eos": True}
    sampling = {"max_new_tokens": kind.answer_tokens, "temperature": 0.0, **options, **ends}
    ids = [token for seed, count in words(kind, number) for token in _tokens(seed, count)]
    return {"input_ids": ids, "sampling_params": sampling}


def _tokens(seed: int, count: int) -> list[int]:
    return random.Random(seed).choices(TOKEN_IDS, k=count)  # noqa: S311
