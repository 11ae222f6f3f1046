"""Answers against OpenAI's published schema (openai/README.md says where it is from), with jsonschema."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

SCHEMA = Path(__file__).with_name("openai") / "schema.json"
PREFIX = "#/components/schemas/"


def faults(name: str, found: Any) -> list[str]:
    """What an answer has against a component, each with its place; [] where it has nothing.

    >>> faults("Model", {"id": "m", "object": "model", "owned_by": "me"})
    ["Model: 'created' is a required property"]
    """
    errors = map(_inner, _validator(name).iter_errors(found))
    return [f"{name}{_place(error)}: {_short(error.message)}" for error in errors]


def names() -> frozenset[str]:
    """The components that are kept."""
    return frozenset(_document()["components"]["schemas"])


def _place(error: ValidationError) -> str:
    return "".join(f".{part}" for part in error.absolute_path)


def _short(message: str) -> str:
    """The end says what is wrong; the beginning is the value, which may be long."""
    return message if len(message) <= 200 else f"{message[:80]} … {message[-120:]}"


def _inner(error: ValidationError) -> ValidationError:
    """The cause within a choice: "is not valid under any of the given schemas" says nothing."""
    return best_match([error]) or error


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": PREFIX + name, **_document()})


@cache
def _document() -> dict[str, Any]:
    document = json.loads(SCHEMA.read_text(encoding="utf-8"))
    found: dict[str, Any] = translated(document, document["components"]["schemas"])
    return found


def translated(schema: Any, components: dict[str, Any]) -> Any:
    """OpenAPI's own words in JSON Schema's: `nullable`, and a choice that a discriminator makes.

    >>> translated({"type": "string", "nullable": True}, {})
    {'anyOf': [{'type': 'string'}, {'type': 'null'}]}
    """
    if isinstance(schema, list):
        return [translated(item, components) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: translated(value, components) for key, value in schema.items()}
    if isinstance(found.get("discriminator"), dict) and "oneOf" in found:
        name, kinds = found.pop("discriminator")["propertyName"], found.pop("oneOf")
        found |= _chosen(name, kinds, components)
    if found.get("nullable") is True:
        del found["nullable"]
        return {"anyOf": [found, {"type": "null"}]}
    return found


def _chosen(name: str, references: list[dict[str, str]], components: dict[str, Any]) -> dict[str, Any]:
    """A choice that a property makes: only the kind that it names is asked, so that its faults are the ones told.

    >>> _chosen("type", [{"$ref": PREFIX + "A"}], {"A": {"properties": {"type": {"enum": ["a"]}}}})["properties"]
    {'type': {'enum': ['a']}}
    """
    kinds, rules = [], []
    for reference in references:
        values = components[reference["$ref"].removeprefix(PREFIX)]["properties"][name]["enum"]
        kinds += values
        rules.append({"if": {"properties": {name: {"enum": values}}}, "then": reference})
    return {"type": "object", "required": [name], "properties": {name: {"enum": kinds}}, "allOf": rules}
