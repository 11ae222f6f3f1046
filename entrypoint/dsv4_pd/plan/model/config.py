"""What a config.json may say where we read it: a value of another kind is named, and taken for nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Config = Mapping[str, Any]
_MOST = 10**9  # of a dimension, a count or a token's number

SHAPE = {  # ours -> the key in config.json
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "head_dim": "head_dim", "rope_dim": "qk_rope_head_dim", "q_lora": "q_lora_rank", "o_groups": "o_groups",
    "o_lora": "o_lora_rank", "index_heads": "index_n_heads", "index_dim": "index_head_dim",
    "experts": "n_routed_experts", "shared_experts": "n_shared_experts", "top_k": "num_experts_per_tok",
    "expert_inner": "moe_intermediate_size", "vocab": "vocab_size", "streams": "hc_mult",
}  # fmt: skip


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MOST


def _positive(value: Any) -> bool:
    return _whole(value, 1)


def _count(value: Any) -> bool:
    return _whole(value, 0)


def _counts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_whole(item, 0) for item in value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _table(value: Any) -> bool:
    return isinstance(value, Mapping)


Rule = tuple[Callable[[Any], bool], str]
_POSITIVE: Rule = (_positive, "a whole number of 1 or more")
_COUNT: Rule = (_count, "a whole number")
_COUNTS: Rule = (_counts, "a list of whole numbers")
_TEXT: Rule = (_text, "a text")
_TABLE: Rule = (_table, "an object")
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(SHAPE.values(), _POSITIVE),
    "n_shared_experts": _COUNT,
    "model_type": _TEXT,
    "expert_dtype": _TEXT,
    "quantization_config": _TABLE,
    "compress_ratios": _COUNTS,
    "num_nextn_predict_layers": _COUNT,
    "dspark_block_size": _COUNT,
    "dspark_markov_rank": _COUNT,
    "dspark_noise_token_id": _COUNT,
    "dspark_target_layer_ids": _COUNTS,
}
OURS = "deepseek_v4"  # the kind of model whose keys these are; another kind may mean something else by them


def odd_keys(config: Config) -> tuple[str, ...]:
    """The keys whose values are of another kind than the engine's own configuration has; null counts as absent."""
    return tuple(key for key, (fits, _) in _RULES.items() if config.get(key) is not None and not fits(config[key]))


def sound(config: Config) -> dict[str, Any]:
    """The config without what is odd in it.

    >>> sound({"model_type": "deepseek_v4", "num_hidden_layers": "43x", "vocab_size": None})
    {'model_type': 'deepseek_v4'}
    """
    odd = odd_keys(config)
    return {key: value for key, value in config.items() if value is not None and key not in odd}


def problems(config: Config) -> tuple[str, ...]:
    """What is odd in the config of a model of this kind.

    >>> problems({"model_type": "deepseek_v4", "num_hidden_layers": "43x"})
    ("config.json: num_hidden_layers is '43x', not a whole number of 1 or more",)
    """
    if config.get("model_type") != OURS:
        return ()
    return tuple(f"config.json: {key} is {short(config[key])}, not {_RULES[key][1]}" for key in odd_keys(config))


def short(value: Any) -> str:
    """A value in few words."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deeply"
    return text if len(text) <= 40 else f"{text[:37]}..."
