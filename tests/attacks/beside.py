"""An ordinary client beside an attack: small requests, one after the other, each with one right answer."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PAUSE_S = 0.05


@dataclass(slots=True)
class Beside:
    """What it saw: seconds of each answer, and how each request that was not answered rightly ended."""

    port: int
    expected: str = ""
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def ask(self) -> str:
        body = {"model": "dsv4-demo", "prompt": "The cache crosses the bridge", "max_tokens": 4, "temperature": 0}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            got = connection.getresponse()
            text = got.read()
            return str(json.loads(text)["choices"][0]["text"]) if got.status == 200 else f"{got.status} {text[:200]!r}"
        except (OSError, ValueError, LookupError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()

    def until(self, end: threading.Event) -> None:
        while not end.is_set():
            begun = time.monotonic()
            answer = self.ask()
            self.seconds.append(time.monotonic() - begun)
            if answer != self.expected:
                self.failures.append(f"{answer} after {self.seconds[-1]:.1f} s")
            end.wait(PAUSE_S)


@contextmanager
def beside(port: int, expected: str) -> Iterator[Beside]:
    """Asks as long as the block runs, and at least once after it began and once before it ends."""
    client, end = Beside(port, expected), threading.Event()
    thread = threading.Thread(target=client.until, args=(end,), daemon=True)
    thread.start()
    try:
        yield client
    finally:
        end.set()
        thread.join(90)
