"""Tools beside each other and beside a form of the answer, which the engine's renderer refuses to write down: pure.

The renderer takes either only strict tools or none, and no form of the answer beside strict ones. But all that it
writes for a strict one is `additionalProperties: false`; what holds the model to a tool's schema is the grammar,
and that knows each tool for itself.
"""

from __future__ import annotations

import json
from typing import Any

Body = dict[str, Any]


def evened(body: Body) -> Body:
    """A request as the renderer takes it: its strict tools say themselves what it would write for them.

    >>> evened({"tools": [{"function": {"name": "a", "strict": True}}, {"function": {"name": "b"}}]})["tools"][0]
    {'function': {'name': 'a'}}
    """
    tools = body.get("tools") or []
    strict = [bool(tool["function"].get("strict")) for tool in tools]
    if not any(strict) or (all(strict) and "response_format" not in body):
        return body
    return {**body, "tools": [_even(tool) for tool in tools]}


def _even(tool: Body) -> Body:
    function = {name: value for name, value in tool["function"].items() if name != "strict"}
    if tool["function"].get("strict") and isinstance(function.get("parameters"), dict):
        function["parameters"] = _closed(function["parameters"])
    return {**tool, "function": function}


def _closed(schema: Body) -> Body:
    """No other property, in the place where the renderer writes it."""
    found = {name: value for name, value in schema.items() if name not in ("required", "additionalProperties")}
    found["additionalProperties"] = False
    return {**found, "required": schema["required"]} if "required" in schema else found


def either(calls: Body, schema: str) -> str:
    """A structural tag: calls of tools as `calls` has them (a structural tag of their own), or JSON of this schema."""
    form = {"type": "json_schema", "json_schema": json.loads(schema)}
    return json.dumps({"type": "structural_tag", "format": {"type": "or", "elements": [calls["format"], form]}})
