"""How long a context a model's config.json allows, as the engine derives it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
_UNKNOWN = 2048  # what the engine takes for a model that says nothing


def derived(config: Mapping[str, Any]) -> int | None:
    """Tokens of context that the engine derives from a config.json (get_context_length, hf_transformers/common.py).

    >>> derived({"max_position_embeddings": 4096, "rope_scaling": {"factor": 4}})
    16384
    >>> derived({"max_position_embeddings": 8, "rope_scaling": {"factor": 4, "rope_type": "llama3"}})
    8
    """
    if not config:
        return None
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    scaling = scaling if isinstance(scaling, dict) else {}
    plain = "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3"
    factor = 1 if plain else scaling.get("factor", 1)
    for key in _KEYS:
        value = config.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not isinstance(factor, int | float):
            continue
        if math.isfinite(factor) and (tokens := int(factor * value)) > 0:
            return tokens
    return _UNKNOWN
