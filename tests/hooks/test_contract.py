"""One truth for two distributions that do not import each other: what dsv4_hooks writes, the guard's reader reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from dsv4_hooks.record import SCHEMA, Content, Record
from dsv4_pd.run.guard.prove import plugin_proof

DOCUMENT: dict[str, Any] = json.loads(resources.files("dsv4_hooks").joinpath("record.schema.json").read_text())
KINDS: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def faults(schema: dict[str, Any], value: Any, at: str = "record") -> list[str]:
    """Where a value leaves the schema; as much of JSON Schema as record.schema.json uses, and no word more."""
    used = {"type", "properties", "required", "additionalProperties", "items", "enum", "const"}
    assert set(schema) <= used | {"$schema", "title", "description", "examples"}, f"{at}: {sorted(schema)}"
    if "const" in schema or "enum" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        return [] if value in allowed else [f"{at}: {value!r} is none of {allowed!r}"]
    if not KINDS[schema["type"]](value):
        return [f"{at}: {value!r} is no {schema['type']}"]
    found = [f"{at}: no {name!r}" for name in schema.get("required", ()) if name not in value]
    if schema["type"] == "array":
        found += [fault for item in value for fault in faults(schema["items"], item, f"{at}[]")]
    if schema["type"] == "object":
        rest = schema.get("additionalProperties", True)
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, rest)
            found += [f"{at}: {name!r} is not in the schema"] if inner is False else []
            found += faults(inner, item, f"{at}.{name}") if isinstance(inner, dict) else []
    return found


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def proof(folder: Path, plugin: str = "dsv4-test") -> tuple[str, ...]:
    """What the guard makes of the folder, for a server that is this process."""
    return plugin_proof.missing(folder, {"decode": os.getpid()}, (plugin,), lambda pid: pid)


def started(folder: Path) -> Record:
    return Record("dsv4-test", folder)


def installed(folder: Path) -> Record:
    record = started(folder)
    record.required = ("a",)
    record.installed("a")
    record.installed("b")
    record.succeed()
    return record


def called(folder: Path) -> Record:
    record = installed(folder)
    record.active("a")
    record.fallback("b", "a shape that was not measured")
    return record


def failed(folder: Path) -> Record:
    record = called(folder)
    record.fail(RuntimeError("the engine moved"))
    return record


def stock(folder: Path) -> Record:
    record = started(folder)
    record.succeed("DSV4_KERNELS=stock")
    return record


def unfinished(folder: Path) -> Record:
    record = started(folder)
    record.active("a")
    return record


LIVES: dict[str, tuple[Callable[[Path], Record], str | None]] = {
    "never wrote": (started, "left no record"),
    "register() did not return": (unfinished, "register() has not returned"),
    "installed, not called": (installed, "never called: a"),
    "called": (called, None),
    "failed later": (failed, "RuntimeError: the engine moved"),
    "stock": (stock, "none of its patches was called yet"),
}


@pytest.mark.parametrize(("life", "doubt"), LIVES.values(), ids=LIVES)
def test_the_guard_reads_each_state_as_it_was_written(
    tmp_path: Path, life: Callable[[Path], Record], doubt: str | None
) -> None:
    life(tmp_path)
    found = proof(tmp_path)
    assert found == (() if doubt is None else (f"dsv4-test in decode: {doubt}",))
    assert [fault for content in written(tmp_path) for fault in faults(DOCUMENT, content)] == []


def test_the_schema_lists_what_the_type_lists() -> None:
    assert list(DOCUMENT["properties"]) == list(Content.__annotations__) == DOCUMENT["required"]
    assert DOCUMENT["properties"]["schema"]["const"] == SCHEMA


def test_the_schemas_example_is_a_record_and_a_proof(tmp_path: Path) -> None:
    (example,) = DOCUMENT["examples"]
    assert faults(DOCUMENT, example) == []
    (tmp_path / "example.json").write_text(json.dumps({**example, "pid": os.getpid()}))
    assert proof(tmp_path, example["plugin"]) == ()


@pytest.mark.parametrize(
    "change",
    [{"status": "fine"}, {"pid": "11"}, {"patches": {"a": "called"}}, {"required": "a"}, {"extra": 1}, {"time": None}],
    ids=str,
)
def test_the_schema_refuses(tmp_path: Path, change: dict[str, Any]) -> None:
    called(tmp_path)
    (content,) = written(tmp_path)
    assert faults(DOCUMENT, content | change)
