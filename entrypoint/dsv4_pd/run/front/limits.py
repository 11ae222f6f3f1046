"""What one key may use: requests and tokens a minute, answers at once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dsv4_pd.plan.front.client_keys import Key
from dsv4_pd.run.front.errors import Refusal


@dataclass(slots=True)
class Bucket:
    """So many a minute, as many at once after a quiet minute. `level` may be below zero: tokens are paid afterwards."""

    per_minute: int
    level: float
    at: float

    def fill(self, now: float) -> None:
        """Let the time since the last look count."""
        self.level = min(float(self.per_minute), self.level + (now - self.at) * self.per_minute / 60)
        self.at = now

    def wait(self) -> float:
        """Seconds until the level is at least one; 0 when it is.

        >>> Bucket(60, -4.0, 0.0).wait()
        5.0
        """
        return max(0.0, (1 - self.level) * 60 / self.per_minute)


@dataclass(slots=True)
class Use:
    """What a key has used. `running`: answers being made for it."""

    requests: Bucket | None
    tokens: Bucket | None
    running: int = 0


@dataclass(slots=True)
class Stay:
    """What one request holds of its key's `concurrent`: one answer until it is known how many it makes."""

    key: Key
    use: Use
    held: int = 1

    def take(self, answers: int) -> None:
        """Raises Refusal 429 where the key has not as many left, 400 where it never has."""
        most, more = self.key.concurrent, max(answers, 1) - self.held
        if most is not None and answers > most:
            words = f"The request makes {answers} answers; key {self.key.name!r} may have {most} at once"
            raise Refusal(400, words, code="too_many_answers")
        if most is not None and self.use.running + more > most:
            raise _busy(self.key, self.use.running - self.held)
        self.use.running += more
        self.held += more


@dataclass(slots=True)
class KeyLimits:
    """The use of every key with a limit, by name."""

    uses: dict[str, Use] = field(default_factory=dict)

    @contextmanager
    def entered(self, key: Key) -> Iterator[Stay]:
        """One request of this key; raises Refusal 429 with the time at which it would be let in."""
        use = self._use(key)
        _require(key, use)
        if use.requests is not None:
            use.requests.level -= 1
        use.running += 1
        stay = Stay(key, use)
        try:
            yield stay
        finally:
            use.running -= stay.held

    def spend(self, key: Key, tokens: int) -> None:
        """Tokens of an answer that was made."""
        use = self._use(key)
        if use.tokens is not None:
            use.tokens.level -= tokens

    def _use(self, key: Key) -> Use:
        now = time.monotonic()
        use = self.uses.setdefault(key.name, Use(None, None))
        use.requests = _bucket(use.requests, key.requests_per_minute, now)
        use.tokens = _bucket(use.tokens, key.tokens_per_minute, now)
        return use


def _bucket(bucket: Bucket | None, per_minute: int | None, now: float) -> Bucket | None:
    """The bucket as the key has it now; a changed limit begins full."""
    if per_minute is None:
        return None
    if bucket is None or bucket.per_minute != per_minute:
        return Bucket(per_minute, float(per_minute), now)
    bucket.fill(now)
    return bucket


def _busy(key: Key, running: int) -> Refusal:
    words = f"Key {key.name!r} has {running} answers being made, and may have {key.concurrent} at once"
    return Refusal(429, words, retry_after=1)


def _require(key: Key, use: Use) -> None:
    if key.concurrent is not None and use.running >= key.concurrent:
        raise _busy(key, use.running)
    for what, bucket in (("requests", use.requests), ("tokens", use.tokens)):
        if bucket is not None and (wait := bucket.wait()) > 0:
            words = f"Key {key.name!r} has used its {bucket.per_minute} {what} a minute"
            raise Refusal(429, words, retry_after=math.ceil(wait))
