"""Server-sent events as bytes: cut into whole ones, taken apart, put together. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

END = b"\n\n"
DONE = b"[DONE]"
_USAGE = (b'"usage":{', b'"meta_info":{')
_PROMPT = re.compile(rb'"(?:prompt|input|cache_read_input|cache_creation_input)_tokens": ?(\d+)')
_COMPLETION = re.compile(rb'"(?:completion|output)_tokens": ?(\d+)')
_NO_CHOICES = b'"choices":[]'
_ANNOUNCED = (b"ping", b"message_start", b"response.created", b"response.in_progress", b"response.queued")
# How a stream that came to its end ends, in each dialect.
ENDINGS = (DONE, b'"message_stop"', b'"response.completed"', b'"response.incomplete"', b'"response.failed"', b'"error"')


@dataclass(slots=True)
class Cutter:
    """Bytes as they come, whole events as they go; what a read cut in two is kept until its rest is there."""

    kept: bytes = b""

    def cut(self, chunk: bytes) -> bytes:
        """Every event that is whole.

        >>> cutter = Cutter(); cutter.cut(b"data: 1\\n\\ndata"), cutter.cut(b": 2\\n\\n")
        (b'data: 1\\n\\n', b'data: 2\\n\\n')
        """
        if not self.kept and chunk.endswith(END):
            return chunk
        whole = self.kept + chunk
        at = whole.rfind(END) + len(END)
        if at < len(END):
            self.kept = whole
            return b""
        self.kept = whole[at:]
        return whole[:at]


def events(block: bytes) -> Iterator[bytes]:
    """The events of a block of whole ones, each with its end."""
    for event in block.split(END)[:-1]:
        yield event + END


def parsed(event: bytes) -> tuple[bytes, bytes]:
    """(name, data) of one event; the name is empty where it has none.

    >>> parsed(b"event: ping\\ndata: {}\\n\\n"), parsed(b": a comment\\n\\n")
    ((b'ping', b'{}'), (b'', b''))
    """
    name, data = b"", []
    for line in event.splitlines():
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif line.startswith(b"event:"):
            name = line[6:].strip()
    return name, b"\n".join(data)


def built(name: bytes, data: bytes) -> bytes:
    """One event."""
    return (b"event: " + name + b"\n" if name else b"") + b"data: " + data + END


def is_whole(tail: bytes) -> bool:
    """Whether a stream with this end came to its end; a server that died looks like a clean end otherwise."""
    return any(ending in tail for ending in ENDINGS)


def brought(block: bytes) -> int:
    """How many events of a block bring something of the answer; comments and pings keep a connection alive, no more,
    and some dialects announce an answer before there is any.

    >>> brought(b": keep-alive\\n\\n"), brought(b'event: ping\\ndata: {"type": "ping"}\\n\\n')
    (0, 0)
    >>> brought(b'data: {"a":"event: ping"}\\n\\ndata: [DONE]\\n\\n'), brought(b"event: message_stop\\ndata: {}\\n\\n")
    (2, 1)
    """
    if block.startswith(b"data:") and b"\n:" not in block and b"\nevent:" not in block:
        return block.count(END)
    return sum(1 for event in events(block) if _brings(event))


def _brings(event: bytes) -> bool:
    name, data = parsed(event)
    return bool(data) and name not in _ANNOUNCED


def usage(block: bytes) -> tuple[int, int] | None:
    """(prompt, completion) tokens that an answer or a block of events tells. What came from a cache counts as prompt,
    which Anthropic's form has apart.

    >>> usage(b'data: {"usage":{"prompt_tokens":3,"completion_tokens":5}}\\n\\n')
    (3, 5)
    >>> usage(b'{"usage":{"input_tokens":1,"output_tokens":4,"cache_read_input_tokens":8}}')
    (9, 4)
    """
    at = max(block.rfind(mark) for mark in _USAGE)
    if at < 0:
        return None
    told = block[at:]
    completion = _COMPLETION.search(told)
    if completion is None:
        return None
    return sum(map(int, _PROMPT.findall(told))), int(completion[1])


def without_count(block: bytes) -> bytes:
    """The block without the event that counts an OpenAI stream's tokens, which has no choices.

    >>> without_count(b'data: {"choices":[],"usage":{}}\\n\\ndata: [DONE]\\n\\n')
    b'data: [DONE]\\n\\n'
    """
    if _NO_CHOICES not in block:
        return block
    return b"".join(event for event in events(block) if _NO_CHOICES not in event)


def most(one: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    """Two tellings of one stream: both numbers only grow, and one event may leave one of them out."""
    return other if one is None else (max(one[0], other[0]), max(one[1], other[1]))
