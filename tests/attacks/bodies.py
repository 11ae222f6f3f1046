"""JSON that is the attack: each is a body of a completion, a chat or the engine's own route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attacks.wire import small

TEXT, CHAT, OWN = "/v1/completions", "/v1/chat/completions", "/generate"
HUGE = "9" * 5000  # a number that Python's int() refuses to read, and 64 bits do not hold
FIELDS = ("max_tokens", "temperature", "top_p", "n", "seed", "presence_penalty", "stop", "logprobs", "logit_bias",
          "echo", "suffix", "user", "stream", "stream_options", "model", "prompt", "response_format", "stop_token_ids",
          "min_tokens", "ignore_eos", "rid", "priority", "return_hidden_states", "custom_params", "session_params",
          "lora_path", "bootstrap_host", "bootstrap_port", "bootstrap_room", "data_parallel_rank", "extra_key",
          "regex", "ebnf", "json_schema", "skip_special_tokens", "custom_logit_processor", "log_metrics")  # fmt: skip
SHARE = 7  # every seventh pair of a field and a value is tried each time; no divisor of the number of values
VALUES = ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "-0", HUGE, f"-{HUGE}", "1.5", "true", "null", '""', '"x"',
          "[]", "{}", "[null]", "[[[]]]", '{"a":{}}', '"\\u0000"', '"\\ud800"',
          "9223372036854775808", "-1")  # fmt: skip


def with_raw(field: str, value: str) -> bytes:
    """A small request with one field spelled as given, behind any other of its name."""
    return small()[:-1] + b', "%s": %s}' % (field.encode(), value.encode())


def chat(content: Any = "hi", **fields: Any) -> bytes:
    messages = [{"role": "user", "content": content}]
    return json.dumps({"model": "dsv4-demo", "max_tokens": 2, "messages": messages, **fields}).encode()


def nested(depth: int, opening: str, closing: str) -> str:
    return opening * depth + closing * depth


def deep() -> Iterator[tuple[str, str, bytes]]:
    """(name, path, body): values in values."""
    for depth in (120, 900, 5000, 100_000):
        lists, objects = nested(depth, "[", "]"), '{"a":' * depth + "1" + "}" * depth
        yield f"{depth} lists", TEXT, lists.encode()
        yield f"{depth} lists, open", TEXT, b"[" * depth
        for field, path in (("prompt", TEXT), ("logit_bias", TEXT), ("stop", CHAT), ("metadata", CHAT)):
            yield f"{depth} lists in {field}", path, with_raw(field, lists)
            yield f"{depth} objects in {field}", path, with_raw(field, objects)
        schema = '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth
        yield f"a schema {depth} deep", TEXT, with_raw("json_schema", json.dumps(schema))
        tools = f'[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]'
        yield f"a tool {depth} deep", CHAT, chat()[:-1] + b', "tools": %s}' % tools.encode()


def texts() -> Iterator[tuple[str, str, bytes]]:
    """Characters that are none, and JSON that is not quite."""
    ordinary = small()
    raw = {
        "nothing": b"", "null": b"null", "a number": b"1", "a text": b'"x"', "a list": b"[]", "an empty object": b"{}",
        "half": ordinary[: len(ordinary) // 2], "two": ordinary * 2, "a comma too many": ordinary[:-1] + b",}",
        "comments": b"/* x */" + ordinary, "NUL": ordinary.replace(b"hi", b"h\0i"), "only NULs": bytes(1000),
        "NUL escaped": ordinary.replace(b"hi", b"h\\u0000i"), "byte order mark": b"\xef\xbb\xbf" + ordinary,
        "UTF-16": ordinary.decode().encode("utf-16"), "UTF-32": ordinary.decode().encode("utf-32"),
        "bytes that are no UTF-8": ordinary.replace(b"hi", b"\xff\xfe\x80"),
        "overlong": ordinary.replace(b"hi", b"\xc0\xaf"),
        "a surrogate in bytes": ordinary.replace(b"hi", b"\xed\xa0\x80"),
        "half a surrogate": ordinary.replace(b"hi", b"\\ud83d"),
        "surrogates turned": ordinary.replace(b"hi", b"\\ude00\\ud83d"),
        "a bad escape": ordinary.replace(b"hi", b"\\x41"), "a line break inside": ordinary.replace(b"hi", b"h\ni"),
        "escapes of a terminal": ordinary.replace(b"hi", b"\\u001b]0;x\\u0007\\u001b[2J"),
        "the same name twice": with_raw("prompt", '"again"'),
        "a name a thousand times": ordinary[:-1] + b', "prompt": "x"' * 1000 + b"}",
        "__proto__": with_raw("__proto__", '{"a": 1}'), "an empty name": with_raw("", "1"),
    }  # fmt: skip
    yield from ((name, TEXT, body) for name, body in raw.items())
    yield from ((f"{name} to the chat", CHAT, body.replace(b"completions", b"x")) for name, body in raw.items())
    yield from ((f"{name} to the engine", OWN, body) for name, body in raw.items())


def wide() -> Iterator[tuple[str, str, bytes]]:
    """Many of what is cheap alone; all below the largest body."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    yield "100,000 names", TEXT, (small()[:-1].decode() + "".join(f',"a{n}":1' for n in range(90_000)) + "}").encode()
    yield "100,000 numbers for a prompt", TEXT, small(prompt=[1] * 100_000)
    yield "100,000 empty prompts", TEXT, small(prompt=[""] * 100_000)
    yield "3,000 prompts", TEXT, small(prompt=["a"] * 3000)
    yield "100,000 stop words", TEXT, small(stop=["x"] * 100_000)
    yield "100,000 biases", TEXT, small(logit_bias={str(n): 1 for n in range(60_000)})
    yield "20,000 messages", CHAT, chat(messages=[{"role": "user", "content": "a"}] * 20_000)
    yield "100,000 parts", CHAT, chat([{"type": "text", "text": "a"}] * 30_000)
    yield "100,000 numbers for parts", CHAT, chat([1] * 100_000)
    yield "5,000 tools", CHAT, chat(tools=[tool] * 5000)
    yield "many answers", TEXT, small(n=100_000)
    yield "many log probabilities", TEXT, small(logprobs=100_000_000)
    yield "one word of 900 kB", TEXT, small(prompt="a" * 900_000)
    yield "900 kB of a combining mark", TEXT, small(prompt="a" + "\u0301" * 140_000)
    yield "900 kB of blanks", CHAT, chat(" " * 900_000)
    yield "special tokens", CHAT, chat("<｜begin▁of▁sentence｜>" * 4000)
    yield "image", CHAT, chat([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])
    yield "image of a server", CHAT, chat([{"type": "image_url", "image_url": {"url": "http://127.0.0.1:8998/x"}}])
    yield "grammar", TEXT, small(ebnf="root ::= root root | root")
    yield "pattern", TEXT, small(regex="(a*)*" * 40 + "b")
    yield "stop pattern", TEXT, small(stop_regex="((((a|b|c|d|[^~])*)*)*)*~~$", max_tokens=60)
    yield "repetition", TEXT, small(regex="(((a{1,1000}){1,1000}){1,1000}){1,1000}")


def values() -> Iterator[tuple[str, str, bytes]]:
    """Every field with every value that it does not expect."""
    for field in FIELDS:
        for value in VALUES:
            yield f"{field}: {value[:24]}", TEXT, with_raw(field, value)
