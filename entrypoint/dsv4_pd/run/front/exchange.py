"""One request and its answer, as the front accounts for it: what is measured, logged and let go at its end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web

from dsv4_pd.plan.front import client_keys as keys
from dsv4_pd.run.front.metrics import Series
from dsv4_pd.run.front.outlet import Outlet
from dsv4_pd.run.front.request_log import Entry
from dsv4_pd.run.front.routes import Dialect

UNKNOWN = keys.Key(keys.NOBODY, b"")


@dataclass(eq=False, slots=True)
class Exchange:
    """Moments are on the monotonic clock. `first`, `last`: of what the model wrote; `writing`: since when a write has
    waited for the client; `quiet`: since when a stream that was asked for has brought nothing.
    """

    request: web.BaseRequest
    id: str
    cors: dict[str, str]
    begun: float = field(default_factory=time.monotonic)
    dialect: Dialect = Dialect.OPENAI
    route: str = "none"
    key: keys.Key = UNKNOWN
    series: Series | None = None
    status: int = 0
    stream: bool = False
    waited: float = 0.0
    first: float | None = None
    last: float = 0.0
    events: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    usage: tuple[int, int] | None = None
    ended: str = "whole"
    writing: float | None = None
    quiet: float | None = None
    out: Outlet | None = None  # where the answer is a stream
    clock: asyncio.Timeout | None = None  # of the whole request, until its answer has begun

    def take_deadline(self) -> float | None:
        """When the answer must have ended, by the loop's clock; whoever takes it watches it from here on."""
        if self.clock is None:
            return None
        when = self.clock.when()
        self.clock.reschedule(None)
        return when

    def headers(self) -> dict[str, str]:
        """What every answer of ours carries. `request-id` is where Anthropic's clients look."""
        found = {"x-request-id": self.id, "Server": "dsv4-pd", **self.cors}
        return {**found, "request-id": self.id} if self.dialect is Dialect.ANTHROPIC else found

    def saw(self, block: bytes, events: int) -> None:
        """Part of a stream has come from the servers. `events`: as many of it bring something of the answer."""
        self.bytes_out += len(block)
        if not events:
            return
        now = time.monotonic()
        if self.first is None:
            self.first = now
        elif self.series is not None:
            self.series.gap.add((now - self.last) / events)
        self.last = now
        self.events += events

    def tokens(self) -> int:
        """What a key pays. A stream tells its tokens at its end, so of one that was left the events count, each of
        which brought a token at least.
        """
        prompt, completion = self.usage or (0, 0)
        told = self.usage is not None and self.ended == "whole"
        return prompt + (completion if told else max(completion, self.events))

    def finish(self) -> None:
        """Count it."""
        series = self.series
        if series is None:
            return
        series.statuses[str(self.status)] += 1
        series.ended[self.ended] += 1
        series.whole.add(time.monotonic() - self.begun)
        if self.first is not None:
            series.first.add(self.first - self.begun)
        if self.usage is not None:
            series.prompt_tokens += self.usage[0]
            series.completion_tokens += self.usage[1]

    def entry(self) -> Entry:
        """The line of the log."""
        prompt, completion = self.usage or (None, None)
        return Entry(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            id=self.id,
            key=self.key.name,
            client=self.request.remote or "",
            method=self.request.method,
            route=self.route,
            dialect=self.dialect.value,
            status=self.status,
            stream=self.stream,
            seconds=round(time.monotonic() - self.begun, 4),
            first_s=round(self.first - self.begun, 4) if self.first is not None else None,
            waited_s=round(self.waited, 4),
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            events=self.events,
            prompt_tokens=prompt,
            completion_tokens=completion,
            ended=self.ended,
        )
