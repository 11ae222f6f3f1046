"""The gate in the engine's own request path: the only module that knows the types of that process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import cache, partial
from typing import Any

from dsv4_hooks.table import Around
from fastapi.exceptions import RequestValidationError
from sglang.srt.entrypoints import http_server
from sglang.srt.entrypoints.openai.protocol import DEFAULT_MODEL_NAME
from sglang.srt.entrypoints.openai.serving_base import HTTPException  # the class that the endpoints turn into a status
from sglang.srt.entrypoints.openai.utils import _is_byte_level_tokenizer
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.runtime_context import get_context, get_disagg, get_schedule

from dsv4_gate import forms, message_hooks, tokens, tool_hooks
from dsv4_gate.answers import validation_words
from dsv4_gate.door import Bounds, Door
from dsv4_gate.grammars import FIELDS, Judge
from dsv4_gate.overload import reworded
from dsv4_gate.rules import RequestLimits, chat_refusal, completion_refusal, model_refusal, refusal, sampling_list
from dsv4_gate.samples import spread
from dsv4_gate.targets import ABORTED, CHAT, COMPLETION, ENCODING, GENERATE, LEFT, TOKENIZE

MOST_UNBOUNDED = 256  # the engine's own default where max-running-requests is left to it
JUDGE = Judge(forms.form)
_JUDGES = ThreadPoolExecutor(2, "grammar")  # a client with many large grammars waits for itself
UNSCRUBBED = ("/v1/messages", "/v1/systemone")  # their validation errors have a form of their own, and no engine words


def open_door() -> None:
    """What is done to the server's application and not to one of its functions: bounds on bodies, plain words."""
    forms.check()
    _install_door(http_server.app)


def _install_door(app: Any) -> None:
    app.add_middleware(Door, bounds=_bounds)
    original = app.exception_handlers[RequestValidationError]

    async def handler(request: Any, error: RequestValidationError) -> Any:
        plain = error if request.url.path.startswith(UNSCRUBBED) else _Plain(error)
        return await original(request, plain)

    app.exception_handlers[RequestValidationError] = handler


class _Plain(RequestValidationError):  # type: ignore[misc]
    """Says what is wrong and no more; the engine's handler puts str(errors()) behind str()."""

    def __init__(self, error: RequestValidationError) -> None:
        super().__init__([])
        self.words = validation_words(list(error.errors()))

    def __str__(self) -> str:
        return self.words

    def errors(self) -> Any:
        return ""


def _bounds() -> Bounds | None:
    state = http_server._global_state
    manager = state.tokenizer_manager if state else None
    return _bounds_of(manager) if manager is not None else None


@cache
def _bounds_of(manager: Any) -> Bounds:
    """The engine may be told to cut what is too long; then no prompt is too long."""
    endless = manager.allow_auto_truncate or manager.tokenizer is None
    say_the_limit(manager, os.environ.get("DSV4_CONTEXT_LIMIT", ""))
    return Bounds(manager.context_len, sys.maxsize if endless else _longest_token(manager.tokenizer))


def say_the_limit(manager: Any, asked: str) -> None:
    """One limit for what /v1/models tells and what is refused above it: prompt and answer together.

    The scheduler keeps six tokens of its context, or more where the KV cache is smaller, and would refuse or cut what
    the engine's front still lets in. `asked` is what the operator set; without it the scheduler's own limit counts.
    """
    usable = manager.max_req_input_len or manager.context_len
    limit = min(usable, int(asked)) if asked.isdecimal() else usable
    manager.context_len = manager.model_config.context_len = limit
    # What the chat endpoint holds against max_tokens, and says in its refusal.
    get_context().override("dsv4_gate", context_length=limit)


def _longest_token(tokenizer: Any) -> int:
    """Bytes of the longest token; a byte-level vocabulary writes each byte as one character."""
    added = set(tokenizer.get_added_vocab())
    by_byte = _is_byte_level_tokenizer(tokenizer)
    return max(len(token) if by_byte and token not in added else len(token.encode()) for token in tokenizer.get_vocab())


def _generate(original: Around, manager: Any, obj: Any, request: Any = None) -> AsyncIterator[Any]:
    """Every generation passes here, whichever endpoint it came to. A ValueError becomes a 400."""
    answer: Callable[[], AsyncIterator[Any]] = partial(original, manager, obj, request)
    if not isinstance(obj, GenerateReqInput):
        return answer()
    pair = get_disagg().disaggregation_mode != "null"
    most = get_schedule().max_running_requests or MOST_UNBOUNDED
    bounds = _bounds_of(manager)
    limits = RequestLimits(most, manager.model_config.vocab_size, pair, bounds.context_length, bounds.longest)
    if reason := refusal(obj, limits):
        return _refused(reason)
    if pair and obj.bootstrap_room is not None:
        spread(obj)
    if any(parameters.get(field) for parameters in sampling_list(obj) for field in FIELDS):
        return _with_grammar(answer, obj)
    return answer()


async def _refused(reason: str) -> AsyncIterator[Any]:
    """Raises where the engine's own validation would: at the first answer, inside the endpoint's handler."""
    raise ValueError(reason)
    yield  # makes this a generator


async def _with_grammar(answer: Callable[[], Any], obj: Any) -> AsyncIterator[Any]:
    """Judges the grammars in a thread: xgrammar lets go of the interpreter, and some take a second."""
    for parameters in sampling_list(obj):
        if reason := await asyncio.get_running_loop().run_in_executor(_JUDGES, JUDGE.refusal, parameters):
            raise ValueError(reason)
    async with aclosing(answer()) as answers:
        async for each in answers:
            yield each


def _tokenize(original: Around, manager: Any, texts: Any, is_cross_encoder: bool = False) -> Any:
    if manager.async_dynamic_batch_tokenizer is not None:  # has a thread of its own, and waits for it
        return original(manager, texts, is_cross_encoder)
    return tokens.aside(lambda: original(manager, texts, is_cross_encoder), tokens.characters(texts))


def _completion(original: Around, serving: Any, request: Any) -> str | None:
    _require_model(serving, request)
    return completion_refusal(request) or original(serving, request)


def _chat(original: Around, serving: Any, request: Any) -> str | None:
    _require_model(serving, request)
    return chat_refusal(request) or original(serving, request)


def _require_model(serving: Any, request: Any) -> None:
    reason = model_refusal(request.model, serving.tokenizer_manager.served_model_name, DEFAULT_MODEL_NAME)
    if reason:
        raise HTTPException(status_code=404, detail=reason)


def _encoding(original: Around, serving: Any) -> str | None:
    """None where the operator gave a template, which is the engine's word for prompts that a template makes.

    For this model's tool-call parser the engine has an encoder of its own, and would load the template and not use it.
    """
    return None if serving.tokenizer_manager.server_args.chat_template else original(serving)


async def _aborted(original: Around, manager: Any, out: dict[str, Any], state: Any, is_stream: bool) -> Any:
    out["meta_info"]["finish_reason"] = reworded(out["meta_info"]["finish_reason"])
    return await original(manager, out, state, is_stream)


def _left(original: Around, manager: Any, obj: Any) -> Any:
    """What looks, two seconds after a stream has ended, whether its client had left it.

    A stream that was refused before the engine looked at its request has no `is_single`, which the look reads: it would
    fail, and the server closes a connection whose request fails, although the router has sent the next client's request
    on it by then. That half of it would be lost, and the other server would wait for it until DSV4_LINK_TIMEOUT.
    """
    if not hasattr(obj, "is_single"):
        obj.is_single = not isinstance(obj.rid, list)
    return original(manager, obj)


# target -> what runs around it; targets.py holds what each must look like
AROUND: dict[str, Around] = {
    GENERATE: _generate,
    COMPLETION: _completion,
    CHAT: _chat,
    ENCODING: _encoding,
    ABORTED: _aborted,
    TOKENIZE: _tokenize,
    LEFT: _left,
    **message_hooks.AROUND,
    **tool_hooks.AROUND,
}
