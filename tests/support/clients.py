"""Requests in flight while something happens: half of them streamed, each with an end."""

from __future__ import annotations

import contextlib
import threading
import time
from http.client import HTTPException

from support.appliance import Appliance


class Clients:
    """Requests in threads, every second one streamed. `ends`: (begun, ended, how), in monotonic seconds."""

    def __init__(self, appliance: Appliance, count: int, tokens: int, pause: float = 0.0) -> None:
        self._appliance, self._tokens = appliance, tokens
        self.ends: list[tuple[float, float, str]] = []
        self._threads = [threading.Thread(target=self._send, args=(number % 2 == 0,)) for number in range(count)]
        for thread in self._threads:
            thread.start()
            time.sleep(pause)

    def _send(self, stream: bool) -> None:
        begun, how = time.monotonic(), "failed"
        body = {"model": "dsv4-demo", "max_tokens": self._tokens, "min_tokens": self._tokens,
                "messages": [{"role": "user", "content": f"hello {begun}"}]}  # fmt: skip
        with contextlib.suppress(OSError, HTTPException, AssertionError, LookupError, ValueError):
            if stream:
                chunks = self._appliance.stream(body, timeout=120)
                how = "an error" if any("error" in chunk for chunk in chunks) else "answered"
            elif self._appliance.call("/v1/chat/completions", body, timeout=120)[0] == 200:
                how = "answered"
        self.ends.append((begun, time.monotonic(), how))

    def join(self) -> None:
        """Wait for all of them; none may be without an end."""
        for thread in self._threads:
            thread.join(125)
        assert len(self.ends) == len(self._threads)

    def took(self) -> list[float]:
        """Seconds of each."""
        return [ended - begun for begun, ended, _ in self.ends]
