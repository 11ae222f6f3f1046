"""What one key may use: requests and tokens a minute, answers at once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dsv4_pd.front.errors import Refusal
from dsv4_pd.front.keys import Key


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
    """What a key has used."""

    requests: Bucket | None
    tokens: Bucket | None
    running: int = 0


@dataclass(slots=True)
class KeyLimits:
    """The use of every key with a limit, by name."""

    uses: dict[str, Use] = field(default_factory=dict)

    @contextmanager
    def entered(self, key: Key) -> Iterator[None]:
        """One request of this key; raises Refusal 429 with the time at which it would be let in."""
        use = self._use(key)
        _require(key, use)
        if use.requests is not None:
            use.requests.level -= 1
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1

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


def _require(key: Key, use: Use) -> None:
    if key.concurrent is not None and use.running >= key.concurrent:
        raise Refusal(429, f"Key {key.name!r} has {use.running} requests running, its limit", retry_after=1)
    for what, bucket in (("requests", use.requests), ("tokens", use.tokens)):
        if bucket is not None and (wait := bucket.wait()) > 0:
            words = f"Key {key.name!r} has used its {bucket.per_minute} {what} a minute"
            raise Refusal(429, words, retry_after=math.ceil(wait))
