"""Hooks go in whole or not at all, and each marks its own first call."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from dsv4_hooks import table, targets
from dsv4_hooks.engine import ENGINE_VERSION
from dsv4_hooks.record import Record
from dsv4_hooks.table import Around, Context, Hook
from dsv4_hooks.targets import EngineChanged


def twice(context: Context) -> Around:
    return lambda original, *arguments, **named: 2 * original(*arguments, **named)


LOADS = Hook(
    "loads",
    "json.loads",
    ("s", "cls", "object_hook", "parse_float", "parse_int", "parse_constant", "object_pairs_hook", "kw"),
    twice,
    required=True,
)
SCAN = Hook("scan", "textwrap.dedent", ("text",), twice)


def test_all_hooks_are_put_around_their_targets() -> None:
    put: dict[str, Around] = {}
    record = Record("test", None)
    table.install((LOADS, SCAN), record, put.__setitem__)
    assert set(put) == {"json.loads", "textwrap.dedent"}
    assert record.required == ("loads",)
    assert record.patches == {"loads": "installed", "scan": "installed"}
    assert put["json.loads"](json.loads, "21") == 42
    assert record.patches == {"loads": "active", "scan": "installed"}


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (replace(SCAN, target="textwrap.no_such"), r"textwrap\.no_such does not exist"),
        (replace(SCAN, target="no_such_module.f"), r"no_such_module\.f does not exist"),
        (replace(SCAN, parameters=("other",)), r"textwrap\.dedent takes \('text',\), expected \('other',\)"),
    ],
)
def test_one_changed_target_and_nothing_is_put(hook: Hook, words: str) -> None:
    put: dict[str, Around] = {}
    record = Record("test", None)
    with pytest.raises(EngineChanged, match=words):
        table.install((LOADS, hook), record, put.__setitem__)
    assert not put and not record.patches


def test_a_hook_that_does_not_load_leaves_the_others_out_too() -> None:
    def broken(_: Context) -> Around:
        raise ImportError("no torch")

    put: dict[str, Around] = {}
    with pytest.raises(ImportError):
        table.install((LOADS, replace(SCAN, load=broken)), Record("test", None), put.__setitem__)
    assert put == {}


def test_a_hook_knows_its_name_its_signature_and_its_record() -> None:
    seen: list[Context] = []

    def load(context: Context) -> Around:
        seen.append(context)
        return twice(context)

    record = Record("test", None)
    table.install((replace(SCAN, load=load),), record, lambda *_: None)
    assert (seen[0].name, tuple(seen[0].signature.parameters), seen[0].record) == ("scan", ("text",), record)


def test_only_the_pinned_engine_passes() -> None:
    targets.require_version(ENGINE_VERSION)
    with pytest.raises(EngineChanged, match=f"sglang 0.0.1, expected {ENGINE_VERSION}"):
        targets.require_version("0.0.1")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda self, other: None, r"takes \('self', 'other'\), expected \('self', 'name'\)"),
        (lambda self, name, more: None, r"also requires \['more'\]"),
    ],
)
def test_a_changed_signature_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(EngineChanged, match=words):
        targets.require_leading("target", function, ("self", "name"))


def test_added_options_are_accepted() -> None:
    targets.require_leading("target", lambda self, name, extra=1, *rest, **more: None, ("self", "name"))


def test_an_attribute_that_is_gone_or_nothing_is_refused() -> None:
    owner = SimpleNamespace(here=1, empty=None)
    assert targets.require_attribute("owner", owner, "here") == 1
    for name in ("gone", "empty"):
        with pytest.raises(EngineChanged, match=f"owner has no '{name}'"):
            targets.require_attribute("owner", owner, name)


def test_code_that_no_longer_reads_a_name_is_refused() -> None:
    def reads(owner: Any) -> Any:
        return owner.table

    targets.require_use("reads", reads, "table")
    with pytest.raises(EngineChanged, match="reads no longer reads 'other'"):
        targets.require_use("reads", reads, "other")


@dataclass
class Request:
    text: str
    rid: str


def test_fields_that_are_gone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "Request", Request, raising=False)
    targets.require_fields("json.Request", ("text", "rid"))
    with pytest.raises(EngineChanged, match=r"json\.Request has no \['input_ids', 'n'\]"):
        targets.require_fields("json.Request", ("text", "n", "input_ids"))
