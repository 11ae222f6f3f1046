"""What the conformance run needs of OpenAI's published schema: `python -m api.excerpt openapi.json`, in tests/.

Writes openai/schema.json: the answers that this product gives, and what they refer to, without prose. What no answer
here may hold is `false` in it, so that an answer that holds it fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).with_name("openai") / "schema.json"
PREFIX = "#/components/schemas/"
PROSE = {"description", "example", "examples", "title", "externalDocs", "deprecated"}
EVENTS = (
    "Created", "InProgress", "Completed", "Incomplete", "Failed", "OutputItemAdded", "OutputItemDone",
    "ContentPartAdded", "ContentPartDone", "TextDelta", "TextDone", "FunctionCallArgumentsDelta",
    "FunctionCallArgumentsDone", "ReasoningTextDelta", "ReasoningTextDone", "ReasoningSummaryPartAdded",
    "ReasoningSummaryPartDone", "ReasoningSummaryTextDelta", "ReasoningSummaryTextDone", "Error",
)  # fmt: skip
ROOTS = (
    "CreateChatCompletionResponse", "CreateChatCompletionStreamResponse", "CreateCompletionResponse",
    "ListModelsResponse", "Model", "ErrorResponse", "Response", *(f"Response{name}Event" for name in EVENTS),
)  # fmt: skip
# Of a choice between many kinds, those that may come from here; tools come back as they were sent.
KINDS = {
    "OutputItem": ("OutputMessage", "FunctionToolCall", "ReasoningItem"),
    "Tool": ("FunctionTool", "CustomToolParam", "NamespaceToolParam", "WebSearchTool", "ImageGenTool"),
    "Annotation": (),
}
NEVER = ("InputItem", "Prompt", "Moderation", "ChatCompletionModeration", "ResponseConversation")


def excerpt(published: dict[str, Any]) -> dict[str, Any]:
    """The document that is kept. `published`: OpenAI's openapi.json, parsed."""
    schemas = published["components"]["schemas"]
    kept: dict[str, Any] = {}
    open_names = list(ROOTS)
    while open_names:
        name = open_names.pop()
        if name not in kept:
            kept[name] = False if name in NEVER else _narrowed(name, _bare(schemas[name]))
            open_names += _references(kept[name])
    about = {key: published["info"][key] for key in ("title", "version", "license")}
    return {"openapi": published["openapi"], "info": about, "components": {"schemas": dict(sorted(kept.items()))}}


def _narrowed(name: str, schema: Any) -> Any:
    if name not in KINDS:
        return schema
    wanted = [{"$ref": PREFIX + kind} for kind in KINDS[name]]
    missing = [kind for kind in wanted if kind not in schema["oneOf"]]
    if missing:
        raise ValueError(f"{name}: {missing} are no longer among its kinds")
    return {**schema, "oneOf": wanted} if wanted else False


def _bare(schema: Any, names: bool = False) -> Any:
    """Without prose. `names`: the keys are properties of an answer, not words of the schema.

    >>> _bare({"title": "T", "x-y": 1, "properties": {"title": {"type": "string", "description": "d"}}})
    {'properties': {'title': {'type': 'string'}}}
    """
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if names or not (key in PROSE or key.startswith("x-"))}
    return {key: _bare(value, key == "properties" and not names) for key, value in kept.items()}


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(PREFIX)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def main() -> None:
    published = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    OUT.write_text(json.dumps(excerpt(published), indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
