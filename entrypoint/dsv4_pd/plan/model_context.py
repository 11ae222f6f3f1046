"""How long a context a model's config.json allows, as the engine derives it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
_UNKNOWN = 2048  # what the engine takes for a model that says nothing


def read(folder: Path | None) -> int | None:
    """Tokens; None where there is no config.json to read, which is the model check's to say."""
    if folder is None:
        return None
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return derived(found) if isinstance(found, dict) else None


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
        if isinstance(value, int) and isinstance(factor, int | float):
            return int(factor * value)
    return _UNKNOWN
