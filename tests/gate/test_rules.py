"""What the gate refuses, as a table: request, words that the answer must hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

LIMITS = {"most": 16, "vocabulary": 2048, "pair": True, "context_length": 100, "longest": 8}


def request(**fields: Any) -> SimpleNamespace:
    plain: dict[str, Any] = {
        "text": None,
        "input_ids": None,
        "sampling_params": {},
        "top_logprobs_num": None,
        "logprob_start_len": None,
    }
    return SimpleNamespace(**{**plain, "sampling_params": {}, **fields})


def short(value: Any) -> str:
    return str(value)[:60]


def refusal(asked: SimpleNamespace, **limits: Any) -> str | None:
    from dsv4_gate.rules import RequestLimits
    from dsv4_gate.rules import refusal as judge

    return judge(asked, RequestLimits(**{**LIMITS, **limits}))


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "a"},
        {"text": ["a", "b"], "sampling_params": {"n": 8}},
        {"input_ids": [0, 2047]},
        {"input_ids": [[0], [2047]], "sampling_params": [{"n": 2}, {"n": 2}]},
        {"text": "a", "sampling_params": None},
        {"text": "a", "sampling_params": {"n": None, "top_k": -1, "temperature": 0.5, "stop": ["x"]}},
        {"text": "a", "top_logprobs_num": 128, "custom_labels": None, "video_config": {}},
        {"text": "a", "top_logprobs_num": 20, "sampling_params": {"sampling_seed": 1 << 40}},
        {"text": "a", "image_data": [], "session_params": {}, "return_hidden_states": False},
        {"text": "a" * 792, "sampling_params": {"stop_regex": None, "stop": "a", "stop_token_ids": [1, 2]}},
        {"input_ids": [5] * 99, "sampling_params": {"stop_regex": [], "logit_bias": {"5": 1.5}, "stop": None}},
    ],
    ids=short,
)
def test_what_a_pair_serves_passes(fields: dict[str, Any]) -> None:
    assert refusal(request(**fields)) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"text": ""}, "prompt is empty"),
        ({"text": ["a", ""]}, "prompt is empty"),
        ({"input_ids": []}, "prompt is empty"),
        ({"input_ids": [[5], []]}, "prompt is empty"),
        ({"input_ids": [5, 2048]}, "outside the vocabulary, expected 0 to 2047"),
        ({"input_ids": [[5], [-1]]}, "outside the vocabulary"),
        ({"text": "a", "sampling_params": {"n": 0}}, "n is 0"),
        ({"text": "a", "sampling_params": {"n": True}}, "n is True"),
        ({"text": "a", "sampling_params": {"n": [2]}}, "n is [2]"),
        ({"text": ["a", "b"], "sampling_params": [{"n": 1}, {"n": 2}]}, "n differs"),
        ({"text": ["a"] * 9, "sampling_params": {"n": 2}}, "prompts x n is 18, expected at most 16"),
        ({"text": "a", "sampling_params": {"top_k": 1 << 40}}, "top_k is 1099511627776"),
        ({"text": "a", "sampling_params": {"sampling_seed": 1 << 70}}, "63 bits"),
        ({"text": "a", "top_logprobs_num": 129}, "129 asked for, expected 0 to 128"),
        ({"text": "a", "top_logprobs_num": [1, 129]}, "129 asked for"),
        ({"text": "a", "custom_labels": {"a": "b"}}, "custom_labels is not served"),
        ({"text": "a", "http_worker_ipc": "ipc:///tmp/x"}, "http_worker_ipc is not served"),
        ({"text": "a", "encoder_urls": ["http://x"]}, "encoder_urls is not served"),
        ({"text": "a", "sampling_params": {"is_normalized": True}}, "'is_normalized' is no sampling parameter"),
        ({"text": "a", "sampling_params": [{}, {"stop_regex_strs": ["("]}]}, "'stop_regex_strs' is no sampling"),
        ({"text": "a", "sampling_params": {"x" * 99: 1}}, f"{'x' * 60!r} is no sampling parameter"),
        ({"text": "a", "top_logprobs_num": [1, -1]}, "-1 asked for"),
        ({"text": "a", "logprob_start_len": -9}, "logprob_start_len is -9"),
        (
            {"text": "a" * 801},
            "The input (at least 101 tokens) is longer than the model's context length (100 tokens).",
        ),
        ({"text": ["a", "é" * 401]}, "at least 101 tokens"),
        ({"input_ids": [5] * 100}, "The input (100 tokens)"),
        ({"input_ids": [[5], [5] * 100]}, "The input (100 tokens)"),
        ({"text": "a", "sampling_params": {"stop_regex": "((((a|b|c|d|[^~])*)*)*)*~~$"}}, "stop_regex is not served"),
        ({"text": "a", "sampling_params": [{}, {"stop_regex": ["a"]}]}, "stop_regex is not served"),
        ({"text": "a", "sampling_params": {"stop": ["x" * 2048, "y" * 2049]}}, "stop has 4097 bytes"),
        (
            {"text": "a", "sampling_params": {"logit_bias": dict.fromkeys(map(str, range(1025)), 1)}},
            "logit_bias has 1025",
        ),
        ({"text": "a", "sampling_params": {"stop_token_ids": [1] * 1025}}, "stop_token_ids has 1025 entries"),
        ({"text": "a", "sampling_params": {"stop_token_ids": [1, 1 << 63]}}, "63 bits"),
        ({"text": "a", "sampling_params": {"custom_params": {"a": ["x" * 40000] * 2}}}, "custom_params has 80004"),
        ({"text": "a", "token_ids_logprob": [1] * 1025}, "token_ids_logprob has 1025 entries"),
        ({"text": "a", "lora_path": "x" * 1025}, "lora_path has 1025 characters"),
        ({"text": "a", "rid": ["a", "x" * 1025]}, "rid has 1025 characters"),
        ({"input_embeds": [[0.1]]}, "input_embeds is not served"),
        ({"text": "a", "session_params": {"id": "x"}}, "session_params is not served"),
        ({"text": "a", "disagg_prefill_dp_rank": 0}, "disagg_prefill_dp_rank is not served"),
    ],
    ids=short,
)
def test_what_a_pair_cannot_serve_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    assert words in str(refusal(request(**fields)))


def test_a_single_server_refuses_only_what_would_end_it() -> None:
    assert refusal(request(text="a", sampling_params={"n": 99}, session_params={"id": "x"}), pair=False) is None
    assert "prompt is empty" in str(refusal(request(text=""), pair=False))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, None),
        ({"n": 2, "best_of": 2}, None),
        ({"best_of": 1}, None),
        ({"echo": True}, None),
        ({"best_of": 3}, "best_of is 3, expected n (1)"),
        ({"suffix": "x"}, "suffix is not served"),
        ({"echo": True, "logprobs": 0}, "echo with logprobs"),
    ],
    ids=str,
)
def test_fields_of_completions_that_the_engine_would_ignore(fields: dict[str, Any], words: str | None) -> None:
    from dsv4_gate.rules import completion_refusal

    asked = SimpleNamespace(**{"n": 1, "best_of": None, "suffix": None, "echo": False, "logprobs": None, **fields})
    found = completion_refusal(asked)
    assert found is None if words is None else words in str(found)


def test_a_model_that_is_not_here_is_named_with_the_one_that_is() -> None:
    from dsv4_gate.rules import model_refusal

    assert model_refusal("deepseek-v4", "deepseek-v4", "default") is None
    assert model_refusal("default", "deepseek-v4", "default") is None
    assert model_refusal("gpt-4", "deepseek-v4", "default") == (
        "The model 'gpt-4' does not exist here; this server has 'deepseek-v4'."
    )


@pytest.mark.parametrize(
    ("schema", "refused"),
    [
        ({"type": "object"}, False),
        ({"properties": {}}, False),
        ({"type": "array"}, False),
        ({"$ref": "#/$defs/a"}, False),
        ({"type": "string"}, True),
        ({"enum": ["a"]}, True),
        ({}, True),
    ],
    ids=str,
)
def test_a_scalar_answer_is_refused_in_chat(schema: dict[str, Any], refused: bool) -> None:
    from dsv4_gate.rules import chat_refusal

    wanted = SimpleNamespace(type="json_schema", json_schema=SimpleNamespace(schema_=schema))
    assert bool(chat_refusal(SimpleNamespace(response_format=wanted))) == refused
    assert chat_refusal(SimpleNamespace(response_format=None)) is None
