"""The gate in the engine's own request path: the only module that knows SGLang's types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from dsv4_hooks.table import Around
from sglang.srt.entrypoints.openai.protocol import DEFAULT_MODEL_NAME
from sglang.srt.entrypoints.openai.serving_base import HTTPException  # the class that the endpoints turn into a status
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.runtime_context import get_disagg, get_schedule

from dsv4_gate.overload import reworded
from dsv4_gate.rules import Limits, chat_refusal, completion_refusal, model_refusal, refusal
from dsv4_gate.samples import spread
from dsv4_gate.targets import ABORTED, CHAT, COMPLETION, GENERATE

MOST_UNBOUNDED = 256  # the engine's own default where max-running-requests is left to it


def _generate(original: Around, manager: Any, obj: Any, request: Any = None) -> AsyncIterator[Any]:
    """Every generation passes here, whichever endpoint it came to. A ValueError becomes a 400."""
    if isinstance(obj, GenerateReqInput):
        pair = get_disagg().disaggregation_mode != "null"
        most = get_schedule().max_running_requests or MOST_UNBOUNDED
        reason = refusal(obj, Limits(most, manager.model_config.vocab_size, pair))
        if reason:
            return _refused(reason)
        if pair and obj.bootstrap_room is not None:
            spread(obj)
    answers: AsyncIterator[Any] = original(manager, obj, request)
    return answers


async def _refused(reason: str) -> AsyncIterator[Any]:
    """Raises where the engine's own validation would: at the first answer, inside the endpoint's handler."""
    raise ValueError(reason)
    yield  # makes this a generator


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


async def _aborted(original: Around, manager: Any, out: dict[str, Any], state: Any, is_stream: bool) -> Any:
    out["meta_info"]["finish_reason"] = reworded(out["meta_info"]["finish_reason"])
    return await original(manager, out, state, is_stream)


# target -> what runs around it; targets.py holds what each must look like
AROUND: dict[str, Around] = {GENERATE: _generate, COMPLETION: _completion, CHAT: _chat, ABORTED: _aborted}
