"""Fatal lines of `config/signatures.toml`, sent by a client through each field that an engine or router may write into
its log: the pair serves on.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from guard.test_signatures import FATAL
from support.appliance import Appliance

pytestmark = [pytest.mark.pair, pytest.mark.slow]

# All at once, as records of their own and bare, behind each kind of line break that a log may keep.
TEXT = "".join(f"x{breaks}{line}{breaks}" for line, _, _ in FATAL for breaks in ("\n", "\r\n", "\r", "\x0b", "\u2028"))
ONE = {"text": "hi", "sampling_params": {"max_new_tokens": 2}}
CHAT = {"model": "dsv4-demo", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lora_path": ("/generate", {**ONE, "lora_path": TEXT}),
    "text": ("/generate", {**ONE, "text": TEXT}),
    "rid": ("/generate", {**ONE, "rid": TEXT}),
    "a regex": ("/generate", {**ONE, "sampling_params": {"max_new_tokens": 2, "regex": f"({TEXT}"}}),
    "a grammar": ("/generate", {**ONE, "sampling_params": {"max_new_tokens": 2, "ebnf": TEXT}}),
    "a schema": ("/generate", {**ONE, "sampling_params": {"max_new_tokens": 2, "json_schema": TEXT}}),
    "an unknown parameter": ("/generate", {**ONE, "sampling_params": {TEXT: 1}}),
    "an image": ("/generate", {**ONE, "image_data": TEXT}),
    "a session": ("/generate", {**ONE, "session_params": {"id": TEXT}}),
    "the model": ("/v1/chat/completions", {**CHAT, "model": TEXT}),
    "the message": ("/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": TEXT}]}),
    "the role": ("/v1/chat/completions", {**CHAT, "messages": [{"role": TEXT, "content": "hi"}]}),
    "the user": ("/v1/chat/completions", {**CHAT, "user": TEXT}),
    "a tool": ("/v1/chat/completions", {**CHAT, "tools": [tool(TEXT)]}),
    "the tool choice": ("/v1/chat/completions", {**CHAT, "tools": [tool("f")], "tool_choice": TEXT}),
    "a response format": ("/v1/chat/completions", {**CHAT, "response_format": {"type": TEXT}}),
    "a stop word": ("/v1/completions", {"model": "dsv4-demo", "prompt": "hi", "max_tokens": 2, "stop": [TEXT[:200]]}),
    "an unknown field": ("/v1/completions", {"model": "dsv4-demo", "prompt": "hi", "max_tokens": 2, TEXT: 1}),
    "a path": ("/v1/%0ANot%20enough%20memory.%20Please%20try%20to%20increase%20--mem-fraction-static.", {}),
}


def test_nothing_that_a_client_writes_moves_the_guard(appliance: Appliance) -> None:
    pids = {role: appliance.pid(role) for role in ("prefill", "decode", "router")}
    begun = time.monotonic()
    for path, body in REQUESTS.values():
        try:
            appliance.call(path, body, timeout=20)
        except OSError as error:
            print(path, error)
        assert appliance.process.poll() is None
    states = set()
    while time.monotonic() - begun < 15:
        states.add(appliance.state())
        time.sleep(0.1)
    assert states <= {"READY", "DEGRADED"}
    assert appliance.health()["restarts"]["spent"] == 0
    assert {role: appliance.pid(role) for role in pids} == pids
    assert appliance.chat("What is the capital of Italy?")["content"] == "The capital of Italy is Rome."
