"""The front before both routers of the real pair: what clients met without it, and what they get."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.appliance import Appliance
from support.ports import free_ports

from api.cases import CHAT, LONG, MODEL, NATIVE, TEXT, user
from api.client import KEY, Answer, opened, send
from api.fronts import ROUTERS, wait_idle

pytestmark = pytest.mark.pair
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
LIMIT = 8
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": CITY}
TOOL = {"type": "function", "function": WEATHER}
STRICT = {"type": "function", "function": {
    **WEATHER, "strict": True, "parameters": {**CITY, "additionalProperties": False}}}  # fmt: skip
TWO = user("What is the weather in Paris and in Tokyo?")
FORM = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": CITY}}


@pytest.fixture(scope="module")
def doors(
    appliance: Appliance, fronts: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, int]]:
    """A front before each router; router -> port."""
    folder = tmp_path_factory.mktemp("front")
    (folder / "key").write_text(KEY)
    running, ports = [], {}
    for router in ROUTERS:
        (ports[router],) = free_ports(1)
        running.append(_start(folder, appliance, router, fronts[router], ports[router]))
    for router, process in zip(ROUTERS, running, strict=True):
        _wait(ports[router], process, folder / f"{router}.log")
    yield ports
    for process in running:
        process.terminate()
        assert process.wait(60) == 0


def _start(folder: Path, appliance: Appliance, router: str, behind: int, port: int) -> subprocess.Popen[bytes]:
    options = {
        "upstream": f"http://127.0.0.1:{behind}", "model": MODEL, "port": port, "router": router,
        "health-file": appliance.root / "run/health.json",
        "key-file": folder / "key", "upstream-key-file": folder / "key",
        "max-concurrent": LIMIT, "request-log": folder / f"{router}.requests", "max-body": 1 << 20,
    }  # fmt: skip
    argv = [sys.executable, "-m", "dsv4_pd.front", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / f"{router}.log").open("wb") as out:
        return subprocess.Popen(argv, stdout=out, stderr=out)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if send(port, "/readyz", bound=5).status == 200:
                return
        except OSError:
            pass
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Row:
    """One fault of clients.md's kind: what is sent, and what must hold of the answer."""

    path: str
    body: Any
    want: int
    holds: Callable[[Answer], bool]
    smg_only: bool = False


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": user("Who are you?"), "max_tokens": 60, "temperature": 0, **fields}


def message(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["choices"][0]["message"]
    return found


def error(answer: Answer) -> str:
    """The message of an error in OpenAI's form; every field of it must be there."""
    found = answer.json()["error"]
    assert found.keys() == {"message", "type", "param", "code"}
    assert isinstance(found["code"], str | None)
    return str(found["message"])


def events(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]


def thoughts(expected: bool) -> Callable[[Answer], bool]:
    return lambda answer: bool(message(answer)["reasoning_content"]) == expected


ECHO = [
    *user("Who are you?"),
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "I am."}]},
    *user("Hi"),
]
SMALL = {"model": MODEL, "max_tokens": 60, "temperature": 0, "messages": user("Who are you?")}
ATOOL = {"name": "get_weather", "description": "Get the weather of a city.", "input_schema": CITY}
ASK = {"model": MODEL, "input": "Who are you?", "max_output_tokens": 60}
ROWS: dict[str, Row] = {
    "metadata is the client's": Row(CHAT, chat(), 200, lambda a: "metadata" not in a.json()),
    "refusal": Row(CHAT, chat(), 200, lambda a: message(a)["refusal"] is None),
    "no null details": Row(CHAT, chat(), 200, lambda a: None not in a.json()["usage"].values()),
    "logprobs are JSON": Row(CHAT, chat(logprobs=True, top_logprobs=1, max_tokens=2), 200,
                             lambda a: a.headers["content-type"] == "application/json"),
    "models": Row("/v1/models", None, 200, lambda a: a.json()["data"][0]["created"] > 0
                  and a.headers["content-type"] == "application/json"),
    "a model": Row(f"/v1/models/{MODEL}", None, 200, lambda a: a.json()["id"] == MODEL),
    "an unknown model": Row(CHAT, chat(model="nosuch"), 404, lambda a: "'nosuch' does not exist" in error(a)),
    "no model": Row(CHAT, {k: v for k, v in chat().items() if k != "model"}, 200, lambda a: bool(message(a))),
    "an error of a stream": Row(CHAT, chat(messages=user(LONG), stream=True), 400,
                                lambda a: error(a).startswith("The input (") and "json" in a.headers["content-type"]),
    "one call": Row(CHAT, chat(messages=TWO, tools=[TOOL], parallel_tool_calls=False), 200,
                    lambda a: [c["function"]["arguments"] for c in message(a)["tool_calls"]] == ['{"city": "Paris"}']),
    "one call of a stream": Row(CHAT, chat(messages=TWO, tools=[TOOL], parallel_tool_calls=False, stream=True), 200,
                                lambda a: {c["index"] for e in events(a) for ch in e["choices"]
                                           for c in ch["delta"].get("tool_calls", ())} == {0}),
    "a tool without parameters": Row(CHAT, chat(tools=[{"type": "function", "function": {"name": "now"}}]), 200,
                                     lambda a: bool(message(a))),
    "a tool with null parameters": Row(
        CHAT, chat(tools=[{"type": "function", "function": {"name": "now", "parameters": None}}]), 200,
        lambda a: bool(message(a))),
    "allowed tools": Row(
        CHAT, chat(messages=TWO, tools=[TOOL, {"type": "function", "function": {"name": "now"}}], tool_choice={
            "type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOL]}}), 200,
        lambda a: message(a)["tool_calls"][0]["function"]["name"] == "get_weather"),
    "legacy functions": Row(CHAT, chat(messages=TWO, functions=[WEATHER], function_call="auto"), 200,
                            lambda a: message(a)["function_call"]["name"] == "get_weather"),
    "a function's result": Row(CHAT, chat(functions=[WEATHER], messages=[
        *TWO, {"role": "assistant", "content": None, "function_call": {"name": "get_weather", "arguments": "{}"}},
        {"role": "function", "name": "get_weather", "content": "sunny"}]), 200, lambda a: bool(message(a))),
    "tools with a form, and a call": Row(CHAT, chat(messages=TWO, tools=[TOOL], response_format=FORM), 200,
                                         lambda a: message(a)["tool_calls"][0]["function"]["name"] == "get_weather"),
    "tools with a form, and no call": Row(CHAT, chat(messages=user("Hi"), tools=[STRICT], response_format=FORM), 200,
                                          lambda a: bool(message(a).get("tool_calls")) or "city" in json.loads(
                                              message(a)["content"])),
    "a strict tool beside another": Row(
        CHAT, chat(messages=TWO, tools=[STRICT, {"type": "function", "function": {**WEATHER, "name": "time"}}]), 200,
        lambda a: message(a)["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'),
    "a scalar by reference": Row(CHAT, chat(response_format={"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}}}), 400,
        lambda a: "no object or list" in error(a)),
    "verbosity": Row(CHAT, chat(verbosity="low"), 200, lambda a: bool(message(a)["content"])),
    "nulls": Row(CHAT, chat(logprobs=None, stop=None, n=None, tools=None, response_format=None, seed=None,
                            logit_bias=None, stream=None, store=None, user=None, top_p=None, functions=None), 200,
                 lambda a: bool(message(a)["content"])),
    "nulls of completions": Row(TEXT, {"model": MODEL, "prompt": "two plus", "max_tokens": 4, "echo": None, "n": None,
                                       "suffix": None, "best_of": None, "logprobs": None}, 200, lambda a: bool(a.text)),
    "enable_thinking": Row(CHAT, chat(chat_template_kwargs={"enable_thinking": True}), 200, thoughts(True)),
    "thinking enabled": Row(CHAT, chat(thinking={"type": "enabled"}), 200, thoughts(True)),
    "thinking disabled": Row(CHAT, chat(thinking={"type": "disabled"}, reasoning_effort="high"), 200, thoughts(False)),
    "thinking as a text": Row(CHAT, chat(chat_template_kwargs={"thinking": "false"}), 200, thoughts(False)),
    "token ids": Row(TEXT, {"model": MODEL, "prompt": [5, 6, 7], "max_tokens": 4}, 400, lambda a: bool(error(a))),
    "embeddings": Row("/v1/embeddings", {"model": MODEL, "input": "x"}, 404, lambda a: "URL" in error(a)),
    "administration": Row("/workers", None, 404, lambda a: bool(error(a))),
    "flush": Row("/flush_cache", {}, 404, lambda a: bool(error(a))),
    "native": Row(NATIVE, {"text": "two plus", "sampling_params": {"max_new_tokens": 3}}, 200,
                  lambda a: "meta_info" in a.json()),
    "messages": Row(MESSAGES, SMALL, 200, lambda a: a.json()["stop_sequence"] is None, True),
    "a thought comes back": Row(MESSAGES, {**SMALL, "messages": ECHO}, 200, lambda a: bool(a.json()["content"]), True),
    "thoughts are signed": Row(
        MESSAGES, {**SMALL, "max_tokens": 1100, "thinking": {"type": "enabled", "budget_tokens": 1024}}, 200,
        lambda a: a.json()["content"][0]["signature"] == "unsigned", True),
    "thoughts of a stream": Row(
        MESSAGES, {**SMALL, "max_tokens": 1100, "stream": True, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        200, lambda a: "signature_delta" in a.text, True),
    "one call of messages": Row(
        MESSAGES, {**SMALL, "messages": TWO, "tools": [ATOOL],
                   "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, 200,
        lambda a: [b["type"] for b in a.json()["content"]] == ["tool_use"]
        and a.json()["stop_reason"] == "tool_use", True),
    "an unknown model of messages": Row(MESSAGES, {**SMALL, "model": "nosuch"}, 404,
                                        lambda a: a.json()["error"]["type"] == "not_found_error", True),
    "an error of messages": Row(MESSAGES, {**SMALL, "max_tokens": 100000, "stream": True}, 400,
                                lambda a: a.json()["error"]["message"].startswith("max_completion_tokens is"), True),
    "what Codex sends": Row(RESPONSES, {**ASK, "client_metadata": {"a": "b"}, "zzz": 1}, 200,
                            lambda a: a.json()["status"] in ("completed", "incomplete"), True),
    "a tool of responses without parameters": Row(
        RESPONSES, {**ASK, "tools": [{"type": "function", "name": "now"}]}, 200,
        lambda a: bool(a.json()["output"]), True),
    "one call of responses": Row(
        RESPONSES, {**ASK, "input": TWO[0]["content"], "tools": [{"type": "function", **WEATHER, "strict": False}],
                    "parallel_tool_calls": False}, 200,
        lambda a: [o["type"] for o in a.json()["output"]] == ["function_call"], True),
}  # fmt: skip


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("name", ROWS)
def test_what_a_client_gets(doors: dict[str, int], router: str, name: str) -> None:
    row = ROWS[name]
    answer = send(doors[router], row.path, row.body)
    if row.smg_only and router != "smg":
        assert answer.status == 404
        assert "DSV4_ROUTER=smg" in answer.json()["error"]["message"]
        return
    assert answer.status == row.want, answer.text[:500]
    assert row.holds(answer), answer.text[:1000]
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("headers", [{"x-api-key": KEY}, {"authorization": f"bearer {KEY}"}, {}, {"x-api-key": "no"}])
def test_keys_in_any_header(doors: dict[str, int], router: str, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", doors[router], timeout=60)
    connection.request("POST", TEXT, json.dumps({"model": MODEL, "prompt": "two", "max_tokens": 2}), headers)
    answer = connection.getresponse()
    assert answer.status == (200 if KEY in str(headers) else 401)
    json.loads(answer.read())
    connection.close()


@pytest.mark.parametrize("router", ROUTERS)
def test_slots_of_clients_that_left_are_free_at_once(appliance: Appliance, doors: dict[str, int], router: str) -> None:
    """What was lost at sglang-router: whole answers whose client gave up. As many as are let in, twice over."""
    for stream in (False, True):
        body = chat(max_tokens=1500, ignore_eos=True, stream=stream, messages=user("Tell me a story."))

        def leave(_: int, body: dict[str, Any] = body) -> None:
            try:
                with opened(doors[router], CHAT, body, bound=2.0) as answer:
                    answer.read(1)
            except TimeoutError:
                pass

        with ThreadPoolExecutor(LIMIT) as pool:
            list(pool.map(leave, range(LIMIT)))
            wait_idle(appliance, 20)
            answers = list(pool.map(lambda _: send(doors[router], CHAT, chat(max_tokens=4)), range(LIMIT)))
        assert [answer.status for answer in answers] == [200] * LIMIT, [answer.text for answer in answers]


@pytest.mark.parametrize("router", ROUTERS)
def test_a_rush_waits_in_the_fronts_queue(doors: dict[str, int], router: str) -> None:
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: send(doors[router], CHAT, chat(max_tokens=4), bound=120), range(32)))
    assert [answer.status for answer in answers] == [200] * 32, [
        answer.text for answer in answers if answer.status != 200
    ]
