"""JSON schemas whose answer the chat endpoint loses."""

from __future__ import annotations

from typing import Any

WHOLE = frozenset({"object", "array"})
SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
# Without a type, these say what is meant; to the grammar as well.
OBJECT = frozenset({"properties", "patternProperties", "additionalProperties", "required", "minProperties"})
ARRAY = frozenset({"items", "prefixItems", "minItems", "unevaluatedItems"})
_PYTHON = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}
_DEPTH = 100  # levels of alternatives and references: what is deeper is judged as if it were anything


def is_scalar(schema: Any) -> bool:
    """An answer that may be no object or list: the engine's chat endpoint hands such a one out as a blank.

    >>> is_scalar({"type": "boolean"}), is_scalar({"type": "object"}), is_scalar({"enum": ["a"]})
    (True, False, True)
    >>> is_scalar({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "object"}, {"type": "null"}]}}})
    True
    """
    return bool(_kinds(schema, schema, {}, _DEPTH) & SCALARS)


Seen = dict[str, frozenset[str]]  # what each reference can be; one that is being looked at can be nothing yet


def _kinds(schema: Any, root: Any, seen: Seen, depth: int) -> frozenset[str]:
    """The JSON types that an answer may have; none where no answer fits, which is refused elsewhere."""
    if not isinstance(schema, dict) or depth == 0:
        return frozenset() if schema is False else WHOLE | SCALARS
    found = _own(schema)
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            found &= frozenset().union(*(_kinds(item, root, seen, depth - 1) for item in schema[name]))
    for item in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        found &= _kinds(item, root, seen, depth - 1)
    if isinstance(schema.get("$ref"), str):
        found &= _of_reference(schema["$ref"], root, seen, depth - 1)
    return found


def _of_reference(reference: str, root: Any, seen: Seen, depth: int) -> frozenset[str]:
    """Each is looked at once, so that references to references cost no more than their number."""
    if reference not in seen:
        target = _resolved(reference, root)
        seen[reference] = frozenset()
        seen[reference] = WHOLE if target is None else _kinds(target, root, seen, depth)
    return seen[reference]


def _own(schema: dict[str, Any]) -> frozenset[str]:
    """What a schema says of itself, without what it refers to."""
    given = schema.get("type")
    named = frozenset(given if isinstance(given, list) else [given]) & (WHOLE | SCALARS)
    found = named or _meant(schema)
    values = (
        schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else None
    )
    if values is None:
        return found
    return found & frozenset(_PYTHON.get(type(value), "null") for value in values)


def _meant(schema: dict[str, Any]) -> frozenset[str]:
    if OBJECT & schema.keys():
        return frozenset({"object"})
    return frozenset({"array"}) if ARRAY & schema.keys() else WHOLE | SCALARS


def _resolved(reference: str, root: Any) -> Any:
    """What a reference into the same schema names; None where it names nothing, which the grammar's judge refuses."""
    if not reference.startswith("#"):
        return None
    found = root
    for part in filter(None, reference[1:].split("/")):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
