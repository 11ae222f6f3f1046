"""The engine's functions that the gate stands on, and the parameters that each must have (SGLang 0.5.23)."""

from __future__ import annotations

import inspect
import pkgutil

from dsv4_gate.samples import ADDRESS

GENERATE = "sglang.srt.managers.tokenizer_manager.TokenizerManager.generate_request"
COMPLETION = "sglang.srt.entrypoints.openai.serving_completions.OpenAIServingCompletion._validate_request"
CHAT = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._validate_request"
ABORTED = "sglang.srt.managers.tokenizer_manager.TokenizerManager._handle_abort_finish_reason"
TOKENIZE = "sglang.srt.managers.tokenizer_manager.TokenizerManager._tokenize_texts"
MASK = "sglang.srt.constrained.xgrammar_backend.XGrammarGrammar.fill_vocab_mask"
ACCEPT = "sglang.srt.constrained.xgrammar_backend.XGrammarGrammar.accept_token"
ABORTS = "sglang.srt.managers.scheduler.Scheduler._poll_timeout_aborts"
Parameters = dict[str, tuple[str, ...]]
PARAMETERS: Parameters = {  # of the process that takes requests
    GENERATE: ("self", "obj", "request"),
    COMPLETION: ("self", "request"),
    CHAT: ("self", "request"),
    ABORTED: ("self", "out", "state", "is_stream"),
    TOKENIZE: ("self", "texts", "is_cross_encoder"),
}
SCHEDULER: Parameters = {
    MASK: ("self", "vocab_mask", "idx"),
    ACCEPT: ("self", "token"),
    ABORTS: ("self",),
}
REQUEST = "sglang.srt.managers.io_struct.GenerateReqInput"
# of the request itself: without one of these the rules would pass what they must refuse
FIELDS = ("text", "input_ids", "sampling_params", "top_logprobs_num", "logprob_start_len", "rid", "bootstrap_room",
          "token_ids_logprob", "lora_path")  # fmt: skip


class EngineChanged(Exception):
    """The engine is not the one that the gate was written for."""


def check(parameters: Parameters) -> None:
    """Every target exists with its parameters."""
    for target, expected in parameters.items():
        try:
            function = pkgutil.resolve_name(target)
        except (ImportError, AttributeError) as error:
            raise EngineChanged(f"{target}: {error}") from error
        found = tuple(inspect.signature(function).parameters)
        if found != expected:
            raise EngineChanged(f"{target} takes {found!r}, expected {expected!r}")


def check_request(fields: tuple[str, ...]) -> None:
    """The request has every field that a rule reads."""
    request = pkgutil.resolve_name(REQUEST)
    missing = sorted({*FIELDS, *ADDRESS, *fields} - set(request.__dataclass_fields__))
    if missing:
        raise EngineChanged(f"GenerateReqInput has no {missing!r}")
