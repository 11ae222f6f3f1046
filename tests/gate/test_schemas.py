"""Schemas whose answer may be a scalar, however the schema is written: the chat endpoint would lose it."""

from __future__ import annotations

from typing import Any

import pytest

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
TEXT = {"type": "string"}
DEFS = {
    "$defs": {"o": OBJECT, "t": TEXT, "both": {"anyOf": [OBJECT, {"type": "null"}]}, "again": {"$ref": "#/$defs/t"}}
}
LOST: dict[str, Any] = {
    "a type": TEXT,
    "each scalar": {"type": ["number", "integer", "boolean"]},
    "an object or null": {"type": ["object", "null"]},
    "anything": {},
    "true": True,
    "anyOf": {"anyOf": [OBJECT, TEXT]},
    "oneOf of scalars": {"oneOf": [TEXT, {"type": "integer"}]},
    "allOf": {"allOf": [TEXT, {"maxLength": 3}]},
    "a reference": {"$ref": "#/$defs/t", **DEFS},
    "a reference to an alternative": {"$ref": "#/$defs/both", **DEFS},
    "a reference to a reference": {"$ref": "#/$defs/again", **DEFS},
    "an alternative by reference": {"anyOf": [{"$ref": "#/$defs/o"}, {"$ref": "#/$defs/t"}], **DEFS},
    "an enum": {"enum": ["a", "b"]},
    "an enum of both": {"enum": [{"a": 1}, "b"]},
    "a const": {"const": 3},
    "a const null": {"const": None},
}
SERVED: dict[str, Any] = {
    "an object": OBJECT,
    "a list": {"type": "array", "items": TEXT},
    "no type, but properties": {"properties": {"a": TEXT}},
    "no type, but items": {"items": TEXT},
    "a reference": {"$ref": "#/$defs/o", **DEFS},
    "a reference to itself as a part": {"type": "object", "properties": {"a": {"$ref": "#"}}},
    "alternatives that are objects": {"anyOf": [OBJECT, {"type": "array"}]},
    "allOf narrows": {"allOf": [{"type": ["object", "null"]}, {"type": ["object", "string"]}]},
    "a type beside alternatives": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "a const object": {"const": {"a": 1}},
    "a reference to nothing, which is refused as such": {"$ref": "#/$defs/nosuch", **DEFS},
    "a reference elsewhere, likewise": {"$ref": "http://x/y"},
    "a reference with an escape": {"$ref": "#/$defs/a~1b", "$defs": {"a/b": OBJECT}},
}


@pytest.mark.parametrize("name", LOST)
def test_what_may_be_lost_is_told(name: str) -> None:
    from dsv4_gate.schemas import is_scalar

    assert is_scalar(LOST[name])


@pytest.mark.parametrize("name", SERVED)
def test_what_is_always_an_object_or_a_list_is_served(name: str) -> None:
    from dsv4_gate.schemas import is_scalar

    assert not is_scalar(SERVED[name])


def test_many_references_to_each_other_cost_their_number() -> None:
    from dsv4_gate.schemas import is_scalar

    chain = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 20} for at in range(40)}
    assert is_scalar({"$ref": "#/$defs/d0", "$defs": {**chain, "d40": TEXT}})
    assert not is_scalar({"$ref": "#/$defs/d0", "$defs": {**chain, "d40": OBJECT}})
    ring = {f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{to}"} for to in range(40)]} for at in range(40)}
    assert not is_scalar({"$ref": "#/$defs/d0", "$defs": ring})


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}, {"allOf": [{"$ref": "#"}] * 2}])
def test_a_schema_that_is_only_itself_ends(schema: Any) -> None:
    from dsv4_gate.schemas import is_scalar

    is_scalar(schema)  # what can't be is refused by the grammar's own judge
