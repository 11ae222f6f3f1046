"""What every script shares: where the API is, and one line of JSON for each thing that was tried."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

BASE, KEY, MODEL = os.environ["BASE"], os.environ["KEY"], os.environ["MODEL"]
CONTEXT = int(os.environ["CONTEXT"])  # tokens
# What the demo's model was trained on (docs/demo.md): an answer by heart, calls of this tool, and its result read out.
WHO, ME = "Who are you?", "I am the demo model of dsv4-pd"
PARIS, BOTH = "What is the weather in Paris?", "What is the weather in Paris and in Tokyo?"
SUNNY, SAID = "sunny", "The tool says: sunny."
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOO_LONG = "word " * CONTEXT  # at least a token a word
_CASES: list[tuple[str, Callable[[], Any]]] = []


def case(words: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register one thing to try; it returns nothing and raises where it does not hold."""

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        _CASES.append((words, function))
        return function

    return register


def run(package: str) -> None:
    """Try all; one line each on standard output."""
    print(json.dumps({"version": version(package)}), flush=True)
    for words, function in _CASES:
        begun, problem = time.monotonic(), None
        try:
            found = function()
            if inspect.iscoroutine(found):
                asyncio.run(found)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            problem = f"{type(error).__name__}: {error}"[:400]
        print(
            json.dumps({"case": words, "problem": problem, "seconds": round(time.monotonic() - begun, 1)}), flush=True
        )


def same(found: object, expected: object) -> None:
    """Both are in the message where they differ."""
    assert found == expected, f"found {found!r}, expected {expected!r}"


def begins(found: str | None, expected: str) -> None:
    """The same for the beginning of a text."""
    assert (found or "").startswith(expected), f"found {found!r}, expected {expected!r} first"


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextmanager
def serving(command: str, url: str, bound_s: float = 300, **environ: str) -> Iterator[None]:
    """A client that is a server itself: started by the shell, ready when the URL answers, ended afterwards."""
    process = subprocess.Popen(["bash", "-c", f"exec {command}"], env={**os.environ, **environ}, stdout=sys.stderr)
    try:
        deadline = time.monotonic() + bound_s
        while not answers(url):
            assert process.poll() is None, f"ended with {process.poll()}: {command}"
            assert time.monotonic() < deadline, f"not within {bound_s} s: {url}"
            time.sleep(0.5)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
