"""Whatever a client writes into whichever field: no line of our logs begins with it.

The guard reads a line by its begin, and some lines end the appliance. So each of those is sent, after every kind of
line end, through every field that an answer or a log may quote; then every line that was written is read as the guard
does.
"""

from __future__ import annotations

import http.client
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import ROOT
from dsv4_pd.run.guard.watch.signatures import Signatures
from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from support.appliance import Appliance

from api.case import CHAT, MODEL, NATIVE, TEXT, user
from api.client import KEY, send
from api.fronts import ROUTERS, wait_idle
from api.schemas import needs, schema

TABLE = (ROOT / "config" / "signatures.toml").read_text(encoding="utf-8")
BREAKS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\x1b[2K\r",
          "\n[2026-11-30 05:27:16 TP0] ")  # fmt: skip


@cache
def words() -> tuple[str, ...]:
    """One line for each entry that a guard acts on."""
    fatal = [entry for entry in tomllib.loads(TABLE)["fatal"] if entry["action"] != "ignore"]
    return tuple(entry["text"] if "text" in entry else example(entry["regex"]) for entry in fatal)


def example(regex: str) -> str:
    """A text that it matches: printable ASCII, the same each time."""
    printable = st.characters(min_codepoint=32, max_codepoint=126)
    found: str = find(
        st.from_regex(regex, alphabet=printable),
        lambda text: True,
        settings=settings(database=None, phases=(Phase.generate,), derandomize=True),
    )
    return found


def after_every_break(line: str) -> str:
    return "x" + "".join(end + line for end in BREAKS) + "\ny"


CHATS: dict[str, Any] = {
    "model": lambda bad: {"model": bad},
    "role": lambda bad: {"messages": [{"role": bad, "content": "hi"}]},
    "content": lambda bad: {"messages": user(bad)},
    "content type": lambda bad: {"messages": user([{"type": bad, "text": "hi"}])},
    "image": lambda bad: {"messages": user([{"type": "image_url", "image_url": {"url": bad}}])},
    "tool name": lambda bad: {"tools": [{"type": "function", "function": {"name": bad, "parameters": {}}}]},
    "tool schema": lambda bad: {"tools": [{"type": "function", "function": {"name": "a", "parameters": needs(bad)}}]},
    "tool reference": lambda bad: {"tool_choice": "required", "tools": [
        {"type": "function", "function": {"name": "a", "parameters": needs({"$ref": bad})}}]},
    "tool_choice": lambda bad: {"tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}],
                                "tool_choice": {"type": "function", "function": {"name": bad}}},
    "schema type": lambda bad: {"response_format": schema({"type": "object", "properties": {"a": {"type": bad}}})},
    "schema $ref": lambda bad: {"response_format": schema(needs({"$ref": bad}))},
    "schema #/ref": lambda bad: {"response_format": schema(needs({"$ref": "#/" + bad}))},
    "schema format": lambda bad: {"response_format": schema(needs({"type": "string", "format": bad}))},
    "schema pattern": lambda bad: {"response_format": schema(needs({"type": "string", "pattern": "(" + bad}))},
    "schema name": lambda bad: {"response_format": schema({"type": "object", "properties": {bad: {"type": "x"}}})},
    "format name": lambda bad: {"response_format": {"type": "json_schema", "json_schema": {"name": bad, "schema": 5}}},
    "format type": lambda bad: {"response_format": {"type": bad}},
    "structural tag": lambda bad: {"response_format": {"type": "structural_tag", "triggers": [bad], "structures": [
        {"begin": "<" + bad, "schema": {"type": bad}, "end": bad}]}},
    "template": lambda bad: {"chat_template_kwargs": {bad: bad}},
    "reasoning_effort": lambda bad: {"reasoning_effort": bad},
    "user": lambda bad: {"user": bad, "metadata": {bad: bad}},
    "lora_path": lambda bad: {"lora_path": bad},
    "unknown": lambda bad: {bad: bad},
}  # fmt: skip
TEXTS: dict[str, Any] = {
    "model": lambda bad: {"model": bad},
    "adapter": lambda bad: {"model": f"{MODEL}:{bad}"},
    "prompt": lambda bad: {"prompt": bad},
    "suffix": lambda bad: {"suffix": bad},
    "stop": lambda bad: {"stop": bad[:4000]},
    "stop_regex": lambda bad: {"stop_regex": bad},
    "regex": lambda bad: {"regex": "(" + bad},
    "ebnf": lambda bad: {"ebnf": bad},
    "json_schema": lambda bad: {"json_schema": bad},
    "logit_bias": lambda bad: {"logit_bias": {bad: 1}},
    "lora_path": lambda bad: {"lora_path": bad},
    "rid": lambda bad: {"rid": bad},
    "user": lambda bad: {"user": bad},
    "max_tokens": lambda bad: {"max_tokens": bad},
    "custom_logit_processor": lambda bad: {"custom_logit_processor": bad},
    "unknown": lambda bad: {bad: bad},
}
NATIVES: dict[str, Any] = {
    "text": lambda bad: {"text": bad},
    "lora_path": lambda bad: {"lora_path": bad},
    "rid": lambda bad: {"rid": bad},
    "bootstrap_room": lambda bad: {"bootstrap_room": bad},
    "bootstrap_host": lambda bad: {"bootstrap_host": bad},
    "session": lambda bad: {"session_params": {"id": bad}},
    "image_data": lambda bad: {"image_data": bad},
    "parameter": lambda bad: {"sampling_params": {bad: 1}},
    "regex": lambda bad: {"sampling_params": {"regex": "(" + bad}},
    "custom_params": lambda bad: {"sampling_params": {"custom_params": {bad: bad}, "max_new_tokens": 1}},
    "custom_logit_processor": lambda bad: {"custom_logit_processor": bad},
    "return_logprob": lambda bad: {"return_logprob": bad},
}
BODIES: dict[str, tuple[dict[str, Callable[[str], dict[str, Any]]], dict[str, Any]]] = {
    CHAT: (CHATS, {"model": MODEL, "messages": user("hi"), "max_tokens": 1}),
    TEXT: (TEXTS, {"model": MODEL, "prompt": "hi", "max_tokens": 1}),
    NATIVE: (NATIVES, {"text": "hi", "sampling_params": {"max_new_tokens": 1}}),
}


def requests(line: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, body) of every field that may be echoed."""
    bad = after_every_break(line)
    for path, (fields, plain) in BODIES.items():
        for make in fields.values():
            yield path, {**plain, **make(bad)}


def whisper(port: int, line: str) -> None:
    """What is no JSON: headers, path, query, key. A header can hold no line end, so the line stands there alone."""
    plain = line.encode("ascii", "replace").decode()
    headers = {"x-request-id": plain, "x-smg-routing-key": plain, "user-agent": plain, "x-data-parallel-rank": plain}
    for path in (f"/v1/models?x={quote(after_every_break(line))}", f"/{quote(after_every_break(line))}", TEXT):
        for key in (KEY, plain):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
            body = json.dumps({"model": MODEL, "prompt": "hi", "max_tokens": 1}) if path == TEXT else None
            sent = {**headers, "Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request("POST" if body else "GET", path, body, sent)
            connection.getresponse().read()
            connection.close()


def written(appliance: Appliance) -> dict[Path, str]:
    files = [*(appliance.root / "run").rglob("*.log"), *appliance.root.glob("front-*/*.log")]
    return {file: file.read_text(encoding="utf-8", errors="replace") for file in files}


def lines_of(file: Path, text: str) -> list[str]:
    """The engine's logs hold to the strictest reader; a router's JSON leaves Unicode's line separators as they are."""
    return text.splitlines() if file.stem in ("prefill", "decode") else text.split("\n")


def test_the_lines_that_are_sent_would_be_believed() -> None:
    table = Signatures(TABLE)
    lines = words()
    assert len(lines) > 15
    for line in lines:
        assert (meaning := table.read_line(line)) and meaning.complaint, line
        assert (meaning := table.read_line(f"[2026-11-30 05:27:16 TP0] {line}")) and meaning.complaint, line


@pytest.mark.pair
def test_no_line_begins_with_what_a_client_sent(appliance: Appliance, fronts: dict[str, int]) -> None:
    lines = words()
    before = {file: len(text) for file, text in written(appliance).items()}
    pids = [appliance.pid(role) for role in ("prefill", "decode")]
    for router in ROUTERS:
        asked = [request for line in lines for request in requests(line)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda request, port=fronts[router]: send(port, *request), asked))
            list(pool.map(lambda line, port=fronts[router]: whisper(port, line), lines))
        assert all(answer.status for answer in answers), "none may hang"
        inner = re.compile(r'File "/|Traceback|[a-z_]{3,}\.py\b')
        assert not [answer.text[:300] for answer in answers if inner.search(answer.text)]
    wait_idle(appliance, 20)
    table = Signatures(TABLE)
    found = [
        f"{file.name}: {line[:200]}"
        for file, text in written(appliance).items()
        for line in lines_of(file, text[before.get(file, 0) :])
        if (meaning := table.read_line(line)) and meaning.complaint
    ]
    assert not found, "\n".join(found[:20])
    assert sum(len(text) for text in written(appliance).values()) > sum(before.values()), "the logs were read"
    assert appliance.state() == "READY"
    assert [appliance.pid(role) for role in ("prefill", "decode")] == pids
