"""Every field that a request of the engine has: what a client may set, what the engine sets, what is refused.

/generate takes the engine's own structures from a client's JSON, with all that they hold for the engine's inner use,
and smg passes on fields that it does not know. So what is not named here as a client's is refused. A test holds the
tables against the engine's classes: a new field must be put into one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# field of the engine's request -> why it is refused wherever the model runs
INNER = {
    "custom_labels": "labels of metrics are not a client's: one that is unknown ends the server",
    "http_worker_ipc": "it is the address of one of the engine's own processes",
    "encoder_urls": "there are no encoders",
    "need_wait_for_mm_inputs": "there are no encoders",
    "num_items_assigned": "there are no encoders",
    "mm_hashes": "this model takes text only",
    "mm_content_hashes": "this model takes text only",
    "video_config": "this model takes text only",
    "images_config": "this model takes text only",
    "mm_processor_kwargs": "this model takes text only",
    "use_audio_in_video": "this model takes text only",
    "max_dynamic_patch": "this model takes text only",
    "min_dynamic_patch": "this model takes text only",
    "image_max_dynamic_patch": "this model takes text only",
    "video_max_dynamic_patch": "this model takes text only",
}
# A client may set these; other rules look at their values.
SERVED = frozenset({
    "background", "bootstrap_host", "bootstrap_port", "bootstrap_room", "cache_salt", "conversation_id",
    "custom_logit_processor", "data_parallel_rank", "extra_key", "input_ids", "log_metrics", "logprob_start_len",
    "lora_id", "lora_path", "max_thinking_tokens", "modalities", "no_logs", "priority", "return_bytes",
    "return_entropy", "return_flat_raw_output_top_logprobs", "return_flat_raw_top_logprobs",
    "return_flat_raw_top_logprobs_b64",
    "return_logprob", "return_prompt_token_ids", "return_sampling_mask", "return_text_in_logprobs", "rid",
    "routed_dp_rank", "routed_experts_start_len", "routing_key", "sampling_logprobs_mode", "sampling_params",
    "session_id", "stream", "text", "token_ids_logprob", "top_logprobs_num", "watermark",
})  # fmt: skip
# Set by the engine's endpoints before the gate sees the request; a client's value is replaced, or only tells the time.
ENGINES = frozenset({"external_trace_header", "received_time", "require_reasoning"})

# sampling parameters that a client may set
SAMPLING = frozenset({
    "beam_width", "custom_params", "ebnf", "ebnf_full_assistant", "frequency_penalty", "ignore_eos", "json_schema",
    "logit_bias", "max_new_tokens", "min_new_tokens", "min_p", "n", "no_stop_trim", "presence_penalty", "regex",
    "repetition_penalty", "sampling_seed", "skip_special_tokens", "spaces_between_special_tokens", "stop",
    "stop_regex", "stop_token_ids", "stream_interval", "structural_tag", "temperature", "top_k", "top_p",
    "watermark",
})  # fmt: skip
# The engine derives these from others. With `is_normalized` it would take a client's for its own, unchecked.
DERIVED = frozenset({"is_normalized", "stop_regex_max_len", "stop_regex_strs", "stop_str_max_len", "stop_strs"})
MOST_SHOWN = 60  # characters of a name that a client made up


def inner_fields(request: Any) -> Iterator[str]:
    """What a request sets that is not a client's to set."""
    for name, reason in INNER.items():
        value = getattr(request, name, None)
        if value is not None and value is not False and value not in ([], {}):
            yield f"{name} is not served: {reason}"


def unknown_parameters(parameters: dict[str, Any]) -> Iterator[str]:
    """Sampling parameters that are not a client's.

    >>> list(unknown_parameters({"top_k": 1, "is_normalized": True}))
    ["'is_normalized' is no sampling parameter"]
    """
    for name in sorted(parameters.keys() - SAMPLING):
        yield f"{name[:MOST_SHOWN]!r} is no sampling parameter"
