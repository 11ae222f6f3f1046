"""What a request's JSON may look like, judged before the engine validates it.

Pydantic collects an error for each wrong item and each type that it could have been: a list of 20,000 numbers in place
of a message's parts takes ten seconds of the server's only event loop and 200 MB. So lists that can be long are looked
at first, in a thread, and only when a body is large enough for it to matter.
"""

from __future__ import annotations

from typing import Any

from dsv4_gate.sizes import longer_than, text_bytes, too_long

MOST_NODES = 20_000  # values in one request, apart from token ids and characters
PROMPTS = ("prompt", "text", "input_ids")  # each entry is a prompt of its own
TOGETHER = ("messages", "system", "tools", "input", "instructions", "documents", "functions", "query", "items")
UNCOUNTED = (*PROMPTS, "input_embeds")  # numbers by the thousand are their nature; bytes bound them
OBJECTS = ("messages", "content", "tools")  # a list under these names holds objects


def worth_a_look(body: bytes, context_length: int, longest: int) -> bool:
    """Whether a body could break a rule at all: a cheap bound from its bytes, each value has a comma or a bracket."""
    if len(body) > context_length * longest:
        return True
    return body.count(b",") + body.count(b"[") + body.count(b"{") > min(MOST_NODES, context_length)


def body_refusal(data: Any, context_length: int, longest: int) -> str | None:
    """Why a parsed body is refused, or None: prompts that can't fit, more values than a request has use for."""
    if not isinstance(data, dict):
        return None
    for name in PROMPTS:
        if reason := _bad_prompts(name, data.get(name), context_length, longest):
            return reason
    together = sum(_text(data[name]) for name in TOGETHER if name in data)
    if together > context_length * longest:
        return longer_than(f"at least {-(-together // longest)}", context_length)
    return _bad_nodes({name: value for name, value in data.items() if name not in UNCOUNTED})


def _bad_prompts(name: str, value: Any, context_length: int, longest: int) -> str | None:
    """Prompts of one kind each, none longer than the context."""
    if not isinstance(value, list):
        return too_long(value, context_length, longest) if isinstance(value, str) else None
    kinds = set(map(type, value))
    if kinds == {int}:
        return too_long(value, context_length, longest)
    if len(kinds) > 1 or not kinds <= {str, list}:
        return f"{name} mixes kinds of values, expected texts, token ids, or lists of token ids"
    for prompt in value:
        if isinstance(prompt, list) and not set(map(type, prompt)) <= {int}:
            return f"{name} holds a list of something else than token ids"
        if reason := too_long(prompt, context_length, longest):
            return reason
    return None


def _text(value: Any) -> int:
    """Bytes of all strings in a value."""
    total, rest = 0, [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            total += text_bytes(item)
        elif isinstance(item, dict):
            rest += item.values()
        elif isinstance(item, list):
            rest += item
    return total


def _bad_nodes(data: dict[str, Any]) -> str | None:
    nodes, rest = 0, list(data.items())
    while rest:
        name, value = rest.pop()
        nodes += 1
        if nodes > MOST_NODES:
            return f"the request has more than {MOST_NODES} values, expected fewer"
        if isinstance(value, dict):
            rest += value.items()
        elif isinstance(value, list):
            if len(value) > MOST_NODES:
                return f"{name} has {len(value)} entries, expected at most {MOST_NODES}"
            if name in OBJECTS and not set(map(type, value)) <= {dict}:
                return f"{name} holds something else than objects"
            rest += [(name if isinstance(item, list) else "", item) for item in value]
    return None
