"""Tools beside a form of the answer on /v1/responses, through the front, smg and the real pair: both are held."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.cases import MODEL
from api.client import Answer, send

pytestmark = pytest.mark.pair
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "name": "get_weather", "description": "Get the weather of a city.", "parameters": CITY}
STATED = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
TEXT = {"format": {"type": "json_schema", "name": "x", "schema": STATED, "strict": True}}
ASKED, PLAIN = "What is the weather in Paris?", "Who are you?"


def ask(fronts: dict[str, int], prompt: str, strict: bool, **fields: Any) -> Answer:
    body = {"model": MODEL, "input": prompt, "temperature": 0, "max_output_tokens": 200, "text": TEXT,
            "tools": [{**WEATHER, "strict": strict}], **fields}  # fmt: skip
    return send(fronts["smg"], "/v1/responses", body)


def output(answer: Answer) -> list[dict[str, Any]]:
    """The items of an answer, streamed or in one piece."""
    if answer.headers["content-type"].startswith("application/json"):
        return list(answer.json()["output"])
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    return list(events[-1]["response"]["output"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_a_tool_stays_callable(fronts: dict[str, int], strict: bool, stream: bool) -> None:
    answer = ask(fronts, ASKED, strict, stream=stream)
    assert answer.status == 200, answer.text
    calls = [item for item in output(answer) if item["type"] == "function_call"]
    assert [call["name"] for call in calls] == ["get_weather"]
    assert json.loads(calls[0]["arguments"]).keys() == {"city"}


def test_an_answer_has_the_form(fronts: dict[str, int]) -> None:
    answer = ask(fronts, PLAIN, True, tool_choice="none")
    assert answer.status == 200, answer.text
    (item,) = output(answer)
    assert (item["type"], set(json.loads(item["content"][0]["text"]))) == ("message", {"ok"})


def test_what_the_model_chooses_is_one_of_the_two(fronts: dict[str, int]) -> None:
    """So small a model may call for whatever it is asked; free text is what it can't write."""
    answer = ask(fronts, PLAIN, True)
    assert answer.status == 200, answer.text
    (item,) = output(answer)
    text = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
    assert set(json.loads(text)) == ({"city"} if item["type"] == "function_call" else {"ok"})


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_call_that_is_asked_for_comes(fronts: dict[str, int], choice: Any) -> None:
    answer = ask(fronts, PLAIN, True, tool_choice=choice)
    assert answer.status == 200, answer.text
    assert [item["name"] for item in output(answer) if item["type"] == "function_call"] == ["get_weather"]
