"""The engine's functions that the gate stands on, and the parameters that each must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dsv4_hooks.table import Around, Context, Hook
from dsv4_hooks.targets import require_fields

from dsv4_gate.samples import ADDRESS

GENERATE = "sglang.srt.managers.tokenizer_manager.TokenizerManager.generate_request"
COMPLETION = "sglang.srt.entrypoints.openai.serving_completions.OpenAIServingCompletion._validate_request"
CHAT = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._validate_request"
ENCODING = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._resolve_chat_encoding_spec"
ABORTED = "sglang.srt.managers.tokenizer_manager.TokenizerManager._handle_abort_finish_reason"
TOKENIZE = "sglang.srt.managers.tokenizer_manager.TokenizerManager._tokenize_texts"
LEFT = "sglang.srt.managers.tokenizer_manager.TokenizerManager.create_abort_task"
MASK = "sglang.srt.constrained.xgrammar_backend.XGrammarGrammar.fill_vocab_mask"
ACCEPT = "sglang.srt.constrained.xgrammar_backend.XGrammarGrammar.accept_token"
ABORTS = "sglang.srt.managers.scheduler.Scheduler._poll_timeout_aborts"
RENDER = "sglang.srt.entrypoints.openai.serving_deepseek_recipe.DeepSeekRecipeChatEncodingAdapter._encode"
SAMPLING = "sglang.srt.entrypoints.openai.protocol.ChatCompletionRequest.to_sampling_params"
RESPONSES = "sglang.srt.entrypoints.openai.protocol.ResponsesRequest.to_sampling_params"
_ANTHROPIC = "sglang.srt.entrypoints.anthropic.serving.AnthropicServing"
MESSAGE = f"{_ANTHROPIC}._convert_response"
MESSAGE_STREAM = f"{_ANTHROPIC}._generate_anthropic_stream"
CHAT_STREAM = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._generate_chat_stream"
Parameters = dict[str, tuple[str, ...]]
PARAMETERS: Parameters = {  # of the process that takes requests
    GENERATE: ("self", "obj", "request"),
    COMPLETION: ("self", "request"),
    CHAT: ("self", "request"),
    ENCODING: ("self",),
    ABORTED: ("self", "out", "state", "is_stream"),
    TOKENIZE: ("self", "texts", "is_cross_encoder"),
    LEFT: ("self", "obj"),
    MESSAGE: ("self", "response"),
    MESSAGE_STREAM: ("self", "adapted_request", "processed_request", "anthropic_request", "raw_request"),
    CHAT_STREAM: ("self", "adapted_request", "request", "raw_request"),
    RENDER: ("self", "body", "effort", "task", "image_urls"),
    RESPONSES: ("self", "default_max_tokens", "default_params", "stop", "tool_call_constraint"),
    SAMPLING: ("self", "stop", "model_generation_config", "tool_call_constraint", "renderer_handles_response_format"),
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


def _table(
    parameters: Mapping[str, tuple[str, ...]], load: Callable[[Context], Around], required: tuple[str, ...] = ()
) -> tuple[Hook, ...]:
    return tuple(Hook(target, target, names, load, target in required) for target, names in parameters.items())


def _of_requests(context: Context) -> Around:
    """hooks.py imports the engine, so it is imported once the targets have passed."""
    from dsv4_gate import hooks

    return hooks.AROUND[context.name]


def _of_scheduler(context: Context) -> Around:
    """scheduler.py likewise; one meter for all of its hooks."""
    from dsv4_gate import scheduler

    return scheduler.AROUND[context.name]


# warm-up makes a call of GENERATE, so that is the one that READY waits for
HOOKS = _table(PARAMETERS, _of_requests, required=(GENERATE,))
# nothing here is called before a request with a grammar, so nothing is required to be active before READY
SCHEDULER_HOOKS = _table(SCHEDULER, _of_scheduler)


def check_request(fields: tuple[str, ...]) -> None:
    """The engine's request has every field that a rule reads. Raises dsv4_hooks.targets.EngineChanged."""
    require_fields(REQUEST, {*FIELDS, *ADDRESS, *fields})
