"""JSON schemas that compile and cannot be answered."""

from __future__ import annotations

import json
from typing import Any

NESTED = frozenset({"properties", "items", "$ref", "anyOf", "oneOf", "allOf"})


def is_endless(text: Any) -> bool:
    """The root only refers to itself. Prefill fails at the first token of it, and decode waits for the transfer.

    >>> is_endless('{"$ref": "#"}'), is_endless('{"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}')
    (True, False)
    """
    if not isinstance(text, str) or '"$ref"' not in text:
        return False
    try:
        root = json.loads(text)
    except ValueError:
        return False  # the engine says what is wrong with it
    node, seen = root, {"#"}
    while isinstance(node, dict) and isinstance(target := node.get("$ref"), str):
        if target in seen:
            return True
        seen.add(target)
        node = _resolve(root, target)
    return False


def _resolve(root: Any, target: str) -> Any:
    node = root
    for part in target.removeprefix("#/").split("/"):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def is_scalar(schema: Any) -> bool:
    """An answer that is no object or list: the engine's chat endpoint hands it out as a blank.

    >>> is_scalar({"type": "boolean"}), is_scalar({"type": "object"}), is_scalar({"enum": ["a"]})
    (True, False, True)
    """
    if not isinstance(schema, dict):
        return True
    return schema.get("type") not in ("object", "array") and not NESTED & schema.keys()
