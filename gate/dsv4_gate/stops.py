"""Which of a client's stop sequences ended an answer, for /v1/messages, whose clients are told: pure.

The engine knows it in its own chunks (`matched_stop`: a text for a client's, a number for the model's own end), and
leaves it out when it makes Anthropic's events of them.
"""

from __future__ import annotations

import json

_MARK = '"matched_stop":"'
_TURN = '"stop_reason":"end_turn"'


def matched(chunk: str) -> str | None:
    """The stop sequence that a chunk of a chat's stream names.

    >>> matched('data: {"choices":[{"finish_reason":"stop","matched_stop":"a\\\\"b"}]}')
    'a"b'
    >>> matched('data: {"choices":[{"finish_reason":"stop","matched_stop":1}]}')
    """
    if _MARK not in chunk:
        return None
    choices = json.loads(chunk.removeprefix("data: "))["choices"]
    found = [choice.get("matched_stop") for choice in choices]
    return next((stop for stop in found if isinstance(stop, str)), None)


def stopped(event: str, sequence: str | None) -> str:
    """An event of a stream of messages, with the stop sequence where it tells the end of a turn.

    >>> stopped('data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}', "a")
    'data: {"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"a"}}'
    """
    if sequence is None or "message_delta" not in event:
        return event
    return event.replace(_TURN, f'"stop_reason":"stop_sequence","stop_sequence":{json.dumps(sequence)}', 1)
