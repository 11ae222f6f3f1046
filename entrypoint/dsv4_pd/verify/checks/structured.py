"""An answer under a JSON schema keeps to it."""

from __future__ import annotations

import json
from typing import Any

from dsv4_pd.verify.base import Result, Subject, failed, passed
from dsv4_pd.verify.compare import both

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "green", "blue"]}, "warm": {"type": "boolean"}},
    "required": ["colour", "warm"],
    "additionalProperties": False,
}
_FORMAT = {"type": "json_schema", "json_schema": {"name": "colour", "schema": SCHEMA, "strict": True}}


def check(subject: Subject) -> Result:
    """A schema that any model can fill."""
    ask = "Name a colour and say whether it is warm, as JSON."
    whole, streamed, trouble = both(subject.api, ask, response_format=_FORMAT, max_tokens=96)
    if trouble:
        return trouble
    for how, reply in (("whole", whole), ("streamed", streamed)):
        if fault := _fault(reply.content):
            return failed(f"{how} answer: {fault}", "the engine's grammar backend must be xgrammar: see decode's log")
    return passed(f"{whole.content.strip()[:60]} keeps to the schema", content=whole.content)


def _fault(text: str) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return f"no JSON: {text[:100]!r}"
    keys = SCHEMA["properties"]
    if not isinstance(value, dict) or set(value) != set(keys):
        return f"keys differ from the schema's: {text[:100]!r}"
    fits = value["colour"] in keys["colour"]["enum"] and isinstance(value["warm"], bool)
    return None if fits else f"values outside the schema: {text[:100]!r}"
