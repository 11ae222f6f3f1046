"""Steady load: clients that ask, check each answer against the first one, and record what came back."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from chaos.account import Request

PATIENCE_S = 300.0  # of a client; what counts as hanging is decided afterwards, from what was done meanwhile
QUESTIONS = (
    "What is the capital of France?",
    "What is the capital of Italy?",
    "What is NIXL?",
    "Hello!",
)

WRONG = "wrong"
Outcome = tuple[str, str, str]  # how it ended, the answer's text, all that came


@dataclass(slots=True)
class Outcomes:
    """Everything that was asked. `errors`: how requests failed; a stream that ends without [DONE] is "stream cut"."""

    requests: list[Request] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0  # clients whose last request had no end when the run was over


class Clients:
    """So many of them in threads until `stop()`; temperature 0, so that each question has one answer."""

    def __init__(self, port: int, clients: int, seed: int) -> None:
        self._port, self._random = port, random.Random(seed)
        self._answers: dict[str, str] = {}
        self._lock, self._end = threading.Lock(), threading.Event()
        self.outcomes = Outcomes()
        self._threads = [threading.Thread(target=self._client, daemon=True) for _ in range(clients)]

    def learn(self) -> None:
        """The right answers, from an undisturbed pair."""
        for question in QUESTIONS:
            status, self._answers[question], _ = self._ask(question, stream=False)
            assert status == "ok", f"{question}: {status}"

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop asking and wait for what is in flight."""
        self._end.set()
        for thread in self._threads:
            thread.join(PATIENCE_S + 10)
        self.outcomes.unfinished = sum(thread.is_alive() for thread in self._threads)

    def _client(self) -> None:
        while not self._end.is_set():
            with self._lock:
                question, stream = self._random.choice(QUESTIONS), self._random.random() < 0.5
            begun = time.monotonic()
            status, text, raw = self._ask(question, stream=stream)
            self._count(question, (status, text, raw), begun)
            self._end.wait(0.1 if status == "ok" else 0.5)

    def _count(self, question: str, outcome: Outcome, begun: float) -> None:
        status, text, raw = outcome
        right = status == "ok" and text == self._answers[question]
        with self._lock:
            self.outcomes.requests.append(Request(begun, time.monotonic(), "" if right else status))
            if (status == "ok" and not right) or status.startswith(WRONG):
                wanted, at = self._answers[question], time.strftime("%H:%M:%S")
                self.outcomes.wrong.append(f"{at} {question} -> {status} {text!r}, not {wanted!r}, in {raw[-900:]!r}")
            elif not right:
                self.outcomes.errors[status] += 1

    def _ask(self, question: str, *, stream: bool) -> Outcome:
        body = {"model": "dsv4-demo", "temperature": 0, "stream": stream, "max_tokens": 24,
                "messages": [{"role": "user", "content": question}]}  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            got = connection.getresponse()
            text = got.read().decode(errors="replace")
        except TimeoutError:
            return "no answer", "", ""
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__, "", ""
        finally:
            connection.close()
        if got.status != 200:
            return str(got.status), "", text
        try:
            return (*(_streamed(text) if stream else _whole(json.loads(text)["choices"][0])), text)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return f"{WRONG}: cannot be read ({type(error).__name__})", "", text


def _whole(choice: dict[str, Any]) -> tuple[str, str]:
    return _ended(choice["finish_reason"]), choice["message"]["content"]


def _streamed(text: str) -> tuple[str, str]:
    """The joined text of a stream; a decode that dies ends it politely, only [DONE] is missing."""
    events = [line[6:].strip() for line in text.splitlines() if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return "stream cut", ""
    chunks = [json.loads(event) for event in events[:-1]]
    if any("error" in chunk for chunk in chunks):
        return "error in stream", ""
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    reason = next((choice["finish_reason"] for choice in reversed(choices) if choice.get("finish_reason")), None)
    return _ended(reason), "".join(choice["delta"].get("content") or "" for choice in choices)


def _ended(reason: str | None) -> str:
    """A 200 that was cut off, or does not say how it ended, is wrong: clients read its text alone."""
    return "ok" if reason in ("stop", "length") else f"{WRONG}: finish_reason {reason}"
