"""JSON schemas that the cases send."""

from __future__ import annotations

from typing import Any

ADD: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"enum": [1, 2]}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
}


def schema(described: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": described}}


def needs(part: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": part}, "required": ["a"]}


def nested(levels: int) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        part = needs(part)
    return part


TREE = {
    "type": "object",
    "properties": {"v": {"type": "string"}, "c": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v"],
}

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: dict[str, Any] = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": CITY}
# A form that a model of any size fills: free text could go on to the limit of tokens.
CHOICE: dict[str, Any] = {
    **CITY,
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "additionalProperties": False,
}
STRICT_CITY: dict[str, Any] = {**CITY, "additionalProperties": False}


def function(**fields: Any) -> dict[str, Any]:
    """A tool of chats."""
    return {"type": "function", "function": fields}
