"""Which grammars are refused, judged on the form that the installed xgrammar gives them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, VENVS

from gate.grammar_cases import REFUSED, SERVED, text

PROGRAM = """
import json, sys
import xgrammar
from dsv4_gate.forms import check, form
from dsv4_gate.grammars import Judge
check()
asked = json.load(open(sys.argv[1]))
def tag(tools, choice):
    return xgrammar.get_model_structural_tag("deepseek_v4", tools=tools, tool_choice=choice).model_dump_json()
asked += [("structural_tag", tag(*each)) for each in json.load(open(sys.argv[3]))]
json.dump([Judge(form).refusal({field: text}) for field, text in asked], open(sys.argv[2], "w"))
"""
CASES = [
    *((field, text(field, case), None) for field, cases in SERVED.items() for case in cases),
    *((field, text(field, case), words) for field, cases in REFUSED.items() for case, words in cases),
]


def tool(number: int, **properties: Any) -> dict[str, Any]:
    described = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": f"tool_{number}", "parameters": described, "strict": True}}


KINDS = {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "boolean"}, "d": {"type": "array"}}
TOOLS = [  # the grammar that the engine itself makes of tools
    ([tool(0, a=KINDS["a"])], "auto"),
    ([tool(number, **KINDS) for number in range(128)], "auto"),
    ([tool(number, **KINDS) for number in range(128)], "required"),
    (
        [tool(0, **KINDS, tree={"type": "object", "properties": {"x": {"type": "array", "items": KINDS["a"]}}})],
        "required",
    ),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[str | None]:
    folder = tmp_path_factory.mktemp("grammars")
    asked, found, tools = folder / "asked.json", folder / "found.json", folder / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    asked.write_text(json.dumps([(field, grammar) for field, grammar, _ in CASES]))
    environ = {"HOME": str(folder), "PYTHONPATH": str(ROOT / "gate"), "PATH": os.environ["PATH"]}
    command: list[str | Path] = [VENVS / "engine/bin/python", "-c", PROGRAM, asked, found, tools]
    subprocess.run(command, env=environ, check=True, timeout=300, capture_output=True)
    answers: list[str | None] = json.loads(found.read_text())
    return answers


@pytest.mark.engine
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number][0]}-{number}")
def test_each_spelling_gets_its_verdict(verdicts: list[str | None], number: int) -> None:
    field, grammar, words = CASES[number]
    found = verdicts[number]
    if words is None:
        assert found is None, (grammar[:200], found)
    else:
        assert found, grammar[:200]
        assert words in found, (grammar[:200], found)
        assert found.startswith(f"{field}: "), "the field is named"
        assert len(found) < 2500, "a refusal does not send the grammar back"


@pytest.mark.engine
@pytest.mark.parametrize("number", range(len(TOOLS)))
def test_the_engines_own_grammars_for_tools_pass(verdicts: list[str | None], number: int) -> None:
    assert verdicts[len(CASES) + number] is None


def test_a_form_that_is_not_known_is_an_error() -> None:
    from dsv4_gate.grammar_form import FormChanged, read

    with pytest.raises(FormChanged, match="'v17', expected 'v16'"):
        read('{"__VERSION__": "v17"}')


@pytest.mark.parametrize("value", [{"type": "object"}, 5, ["a"]])
def test_a_grammar_that_is_no_string_is_refused(value: object) -> None:
    from dsv4_gate.grammars import Judge

    found = Judge(lambda kind, text: "").refusal({"json_schema": value})
    assert found == f"json_schema is a {type(value).__name__}, expected a string"
