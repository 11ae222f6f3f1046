"""Steady load: clients that ask, check each answer against the first one, and count what came back."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

BOUND_S = 30.0  # a request that has no end by then hangs
QUESTIONS = (
    "What is the capital of France?",
    "What is the capital of Italy?",
    "What is NIXL?",
    "Hello!",
)

WRONG = "wrong"
Outcome = tuple[str, str, str]  # how it ended, the answer's text, all that came


@dataclass(slots=True)
class Tally:
    """Outcomes. `errors`: ended with a status or a broken connection; `cut`: a stream that ended without [DONE]."""

    ok: int = 0
    wrong: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    slowest_error_s: float = 0.0


class Load:
    """Clients in threads until `stop()`; temperature 0, so that each question has one answer."""

    def __init__(self, port: int, clients: int, seed: int) -> None:
        self._port, self._random = port, random.Random(seed)
        self._answers: dict[str, str] = {}
        self._lock, self._end = threading.Lock(), threading.Event()
        self.tally = Tally()
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
            thread.join(BOUND_S + 10)

    def _client(self) -> None:
        while not self._end.is_set():
            with self._lock:
                question, stream = self._random.choice(QUESTIONS), self._random.random() < 0.5
            begun = time.monotonic()
            status, text, raw = self._ask(question, stream=stream)
            self._count(question, (status, text, raw), time.monotonic() - begun)
            self._end.wait(0.1 if status == "ok" else 0.5)

    def _count(self, question: str, outcome: Outcome, seconds: float) -> None:
        status, text, raw = outcome
        with self._lock:
            if seconds > BOUND_S:
                self.tally.hung.append(f"{question} {status} after {seconds:.1f} s")
            elif status == "ok" and text == self._answers[question]:
                self.tally.ok += 1
            elif status == "ok" or status.startswith(WRONG):
                wanted, at = self._answers[question], time.strftime("%H:%M:%S")
                self.tally.wrong.append(f"{at} {question} -> {status} {text!r}, not {wanted!r}, in {raw[-900:]!r}")
            else:
                self.tally.errors[status] += 1
                self.tally.slowest_error_s = max(self.tally.slowest_error_s, seconds)

    def _ask(self, question: str, *, stream: bool) -> Outcome:
        body = {"model": "dsv4-demo", "temperature": 0, "stream": stream, "max_tokens": 24,
                "messages": [{"role": "user", "content": question}]}  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=BOUND_S + 5)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            got = connection.getresponse()
            text = got.read().decode()
        except TimeoutError:
            return "no answer", "", ""
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__, "", ""
        finally:
            connection.close()
        if got.status != 200:
            return str(got.status), "", text
        return (*(_streamed(text) if stream else _whole(json.loads(text)["choices"][0])), text)


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
    """A 200 that was broken off, or does not say how it ended, is wrong: clients read its text alone."""
    return "ok" if reason in ("stop", "length") else f"{WRONG}: finish_reason {reason}"
