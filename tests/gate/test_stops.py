"""Stop sequences of /v1/messages: the engine's own conversion, told which one ended the answer."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import ROOT, VENVS

PROGRAM = """
import asyncio, json, sys
from types import SimpleNamespace
from sglang.srt.entrypoints.anthropic.protocol import AnthropicMessagesRequest
from sglang.srt.entrypoints.anthropic.serving import AnthropicServing
from sglang.srt.entrypoints.openai.protocol import (
    ChatCompletionResponse, ChatCompletionResponseChoice, ChatMessage, UsageInfo)
from dsv4_gate import message_hooks

def answer(stop):
    choice = ChatCompletionResponseChoice(
        index=0, message=ChatMessage(role="assistant", content="I am"), finish_reason="stop", matched_stop=stop)
    usage = UsageInfo(prompt_tokens=1, completion_tokens=1, total_tokens=2)
    serving = object.__new__(AnthropicServing)
    response = ChatCompletionResponse(id="1", model="m", choices=[choice], usage=usage)
    found = message_hooks._message(AnthropicServing._convert_response, serving, response)
    return [found.stop_reason, found.stop_sequence]

def chunk(**fields):
    base = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": {"content": "I"}, "finish_reason": None, "matched_stop": None, **fields}
    return "data: " + json.dumps({**base, "choices": [choice]}, separators=(",", ":")) + "\\n\\n"

async def streamed(stop, sequences):
    class Chat:
        def _generate_chat_stream(self, adapted, request, raw):
            async def chunks():
                yield chunk()
                yield chunk(delta={}, finish_reason="stop", matched_stop=stop)
                yield "data: [DONE]\\n\\n"
            return message_hooks._chat_stream(lambda *_: chunks(), self, adapted, request, raw)
    serving = object.__new__(AnthropicServing)
    serving.openai_serving_chat = Chat()
    asked = AnthropicMessagesRequest(
        model="m", max_tokens=5, messages=[{"role": "user", "content": "x"}], stop_sequences=sequences, stream=True)
    events = message_hooks._message_stream(
        AnthropicServing._generate_anthropic_stream, serving, SimpleNamespace(), SimpleNamespace(), asked, None)
    found = [event async for event in events]
    (delta,) = [json.loads(event.split("data: ")[1]) for event in found if "event: message_delta" in event]
    return delta["delta"]

json.dump({
    "sequence": answer("demo"), "end": answer(1513),
    "stream": asyncio.run(streamed('a"b', ['a"b'])), "stream's end": asyncio.run(streamed(1513, ["a"])),
    "not asked": asyncio.run(streamed("a", None)),
}, sys.stdout)
"""


@pytest.mark.engine
def test_which_sequence_ended_an_answer_is_told() -> None:
    environ = {"PYTHONPATH": f"{ROOT / 'gate'}:{ROOT / 'hooks'}", "HOME": "/nonexistent"}
    command = [str(VENVS / "engine/bin/python"), "-c", PROGRAM]
    done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "sequence": ["stop_sequence", "demo"],
        "end": ["end_turn", None],
        "stream": {"stop_reason": "stop_sequence", "stop_sequence": 'a"b'},
        "stream's end": {"stop_reason": "end_turn"},
        "not asked": {"stop_reason": "end_turn"},
    }
