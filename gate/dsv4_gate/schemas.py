"""JSON schemas whose answer the chat endpoint loses."""

from __future__ import annotations

from typing import Any

NESTED = frozenset({"properties", "items", "$ref", "anyOf", "oneOf", "allOf"})


def is_scalar(schema: Any) -> bool:
    """An answer that is no object or list: the engine's chat endpoint hands it out as a blank.

    >>> is_scalar({"type": "boolean"}), is_scalar({"type": "object"}), is_scalar({"enum": ["a"]})
    (True, False, True)
    """
    if not isinstance(schema, dict):
        return True
    return schema.get("type") not in ("object", "array") and not NESTED & schema.keys()
