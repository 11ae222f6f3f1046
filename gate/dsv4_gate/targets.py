"""The engine's functions that the gate stands on, and the parameters that each must have (SGLang 0.5.23)."""

from __future__ import annotations

import inspect
import pkgutil

from dsv4_gate.samples import ADDRESS

GENERATE = "sglang.srt.managers.tokenizer_manager.TokenizerManager.generate_request"
COMPLETION = "sglang.srt.entrypoints.openai.serving_completions.OpenAIServingCompletion._validate_request"
CHAT = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._validate_request"
ABORTED = "sglang.srt.managers.tokenizer_manager.TokenizerManager._handle_abort_finish_reason"
PARAMETERS = {
    GENERATE: ("self", "obj", "request"),
    COMPLETION: ("self", "request"),
    CHAT: ("self", "request"),
    ABORTED: ("self", "out", "state", "is_stream"),
}
REQUEST = "sglang.srt.managers.io_struct.GenerateReqInput"
# of the request itself: without one of these the rules would pass what they must refuse
FIELDS = ("text", "input_ids", "sampling_params", "top_logprobs_num", "logprob_start_len", "rid", "bootstrap_room")


class EngineChanged(Exception):
    """The engine is not the one that the gate was written for."""


def check(fields: tuple[str, ...]) -> None:
    """Every target exists with its parameters, and the request has every field that a rule reads."""
    for target, expected in PARAMETERS.items():
        try:
            function = pkgutil.resolve_name(target)
        except (ImportError, AttributeError) as error:
            raise EngineChanged(f"{target}: {error}") from error
        found = tuple(inspect.signature(function).parameters)
        if found != expected:
            raise EngineChanged(f"{target} takes {found!r}, expected {expected!r}")
    request = pkgutil.resolve_name(REQUEST)
    missing = sorted({*FIELDS, *ADDRESS, *fields} - set(request.__dataclass_fields__))
    if missing:
        raise EngineChanged(f"GenerateReqInput has no {missing!r}")
