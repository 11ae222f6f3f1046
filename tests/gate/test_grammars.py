"""Which grammars are refused, judged on the form that the installed xgrammar gives them."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from conftest import ROOT, VENVS

from gate.grammar_cases import REFUSED, SERVED, text

PROGRAM = """
import json, sys
from dsv4_gate.forms import check, form
from dsv4_gate.grammars import Judge
check()
asked = json.load(open(sys.argv[1]))
json.dump([Judge(form).refusal({field: text}) for field, text in asked], open(sys.argv[2], "w"))
"""
CASES = [
    *((field, text(field, case), None) for field, cases in SERVED.items() for case in cases),
    *((field, text(field, case), words) for field, cases in REFUSED.items() for case, words in cases),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[str | None]:
    folder = tmp_path_factory.mktemp("grammars")
    asked, found = folder / "asked.json", folder / "found.json"
    asked.write_text(json.dumps([(field, grammar) for field, grammar, _ in CASES]))
    environ = {"HOME": str(folder), "PYTHONPATH": str(ROOT / "gate"), "PATH": os.environ["PATH"]}
    command = [VENVS / "engine/bin/python", "-c", PROGRAM, asked, found]
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


def test_a_form_that_is_not_known_is_an_error() -> None:
    from dsv4_gate.grammar_form import FormChanged, read

    with pytest.raises(FormChanged, match="'v17', expected 'v16'"):
        read('{"__VERSION__": "v17"}')


@pytest.mark.parametrize("value", [{"type": "object"}, 5, ["a"]])
def test_a_grammar_that_is_no_string_is_refused(value: object) -> None:
    from dsv4_gate.grammars import Judge

    found = Judge(lambda kind, text: "").refusal({"json_schema": value})
    assert found == f"json_schema is a {type(value).__name__}, expected a string"
