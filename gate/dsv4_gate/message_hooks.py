"""Stop sequences of /v1/messages, told in the engine's own path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from dsv4_hooks.table import Around

from dsv4_gate.stops import matched, stopped
from dsv4_gate.targets import CHAT_STREAM, MESSAGE, MESSAGE_STREAM

_STOP = "_dsv4_stop"  # on the engine's request: the sequence that ended it, where somebody wants to know


def _message(original: Around, serving: Any, response: Any) -> Any:
    answer = original(serving, response)
    stop = response.choices[0].matched_stop if response.choices else None
    if isinstance(stop, str) and answer.stop_reason == "end_turn":
        answer.stop_reason, answer.stop_sequence = "stop_sequence", stop
    return answer


def _message_stream(
    original: Around, serving: Any, adapted_request: Any, processed_request: Any, anthropic_request: Any, raw: Any
) -> AsyncIterator[str]:
    events = original(serving, adapted_request, processed_request, anthropic_request, raw)
    return _told(events, adapted_request) if anthropic_request.stop_sequences else events


async def _told(events: Any, adapted_request: Any) -> AsyncIterator[str]:
    setattr(adapted_request, _STOP, None)
    async with aclosing(events) as open_events:
        async for event in open_events:
            yield stopped(event, getattr(adapted_request, _STOP))


def _chat_stream(original: Around, serving: Any, adapted_request: Any, request: Any, raw: Any) -> AsyncIterator[str]:
    chunks = original(serving, adapted_request, request, raw)
    return _watched(chunks, adapted_request) if hasattr(adapted_request, _STOP) else chunks


async def _watched(chunks: Any, adapted_request: Any) -> AsyncIterator[str]:
    async with aclosing(chunks) as open_chunks:
        async for chunk in open_chunks:
            if (stop := matched(chunk)) is not None:
                setattr(adapted_request, _STOP, stop)
            yield chunk


AROUND: dict[str, Around] = {MESSAGE: _message, MESSAGE_STREAM: _message_stream, CHAT_STREAM: _chat_stream}
