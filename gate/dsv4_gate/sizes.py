"""How much one request may bring: bounds that are checked before anything is spent on it, as pure functions.

Each answers with the client's words, or None. Sizes of text are bytes of UTF-8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

BYTES_PER_TOKEN = 16  # of a request's JSON: English has 5, Chinese as \\u escapes 9
LEAST_BODY = 1 << 20
MOST_STOP_BYTES = 4096  # each stop string is tokenized, and searched for after each token
MOST_ENTRIES = 1024  # of a list or map of tokens: the scheduler walks it for each request
MOST_EXTRA = 1 << 16  # characters and entries of what is only carried along
MOST_NAME = 1024  # characters of a name: it is logged and looked up
NAMES = ("rid", "lora_path", "lora_id", "session_id", "bootstrap_host", "routing_key", "extra_key")
MAPS = ("logit_bias", "stop_token_ids")
CARRIED = ("custom_params", "watermark")


def most_body(context_length: int) -> int:
    """Bytes of one request's body; the router has the same bound (--max-payload-size).

    >>> most_body(4096), most_body(524288)
    (1048576, 8388608)
    """
    return max(LEAST_BODY, context_length * BYTES_PER_TOKEN)


def too_long(prompt: Any, context_length: int, longest: int) -> str | None:
    """Why a prompt (text or token ids) cannot fit, in the engine's words; `longest` is the longest token's bytes.

    >>> too_long("a" * 51, 10, 5)
    "The input (at least 11 tokens) is longer than the model's context length (10 tokens)."
    >>> too_long("a" * 45, 10, 5), too_long([1] * 9, 10, 5)
    (None, None)
    """
    if isinstance(prompt, list):
        return longer_than(str(len(prompt)), context_length) if len(prompt) >= context_length else None
    least = math.ceil(text_bytes(prompt) / longest)
    return longer_than(f"at least {least}", context_length) if least >= context_length else None


def longer_than(tokens: str, context_length: int) -> str:
    """The engine's own words, with what is known without tokenizing."""
    return f"The input ({tokens} tokens) is longer than the model's context length ({context_length} tokens)."


def text_bytes(text: str) -> int:
    """Bytes of UTF-8; a lone surrogate counts as the three that it would take."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def weight(value: Any) -> int:
    """Characters and entries of a value made of JSON's types.

    >>> weight("abc"), weight({"a": [1, 2]}), weight(None)
    (3, 6, 1)
    """
    total, rest = 0, [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            total += len(item)
            rest += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set):
            total += len(item)
            rest += item
        else:
            total += 1
    return total


def large_names(request: Any) -> Iterator[str]:
    """Names that are looked up, logged and sent back."""
    for name in NAMES:
        value = getattr(request, name, None)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and len(item) > MOST_NAME:
                yield f"{name} has {len(item)} characters, expected at most {MOST_NAME}"


def large_fields(parameters: dict[str, Any]) -> Iterator[str]:
    """Sampling parameters whose size the engine's event loop or the scheduler pays for."""
    stops = parameters.get("stop")
    total = sum(text_bytes(stop) for stop in ([stops] if isinstance(stops, str) else stops or ()) if _is_text(stop))
    if total > MOST_STOP_BYTES:
        yield f"stop has {total} bytes, expected at most {MOST_STOP_BYTES} in all of its strings"
    for name in MAPS:
        value = parameters.get(name)
        if isinstance(value, dict | list) and len(value) > MOST_ENTRIES:
            yield f"{name} has {len(value)} entries, expected at most {MOST_ENTRIES}"
    for name in CARRIED:
        if (found := weight(parameters.get(name))) > MOST_EXTRA:
            yield f"{name} has {found} characters and entries, expected at most {MOST_EXTRA}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
