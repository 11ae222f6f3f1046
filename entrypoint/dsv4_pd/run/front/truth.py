"""Whether the appliance serves, by the guard's own word: the file that it publishes once a second."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.run.front.errors import Refusal
from dsv4_pd.run.states import CLOSING, SERVING

STALE_S = 15.0  # the guard beats every second; supervisord brings a dead one back in less
MOST_RETRY_S = 60


@dataclass(frozen=True, slots=True)
class Word:
    """State and reason; `beat`: the guard's last heartbeat on the monotonic clock; `eta`: seconds until it serves;
    `context_length`: tokens of the longest request that every server takes.
    """

    state: str = "BOOTING"
    reason: str = "nothing is published yet"
    beat: float | None = None
    eta: float | None = None
    context_length: int | None = None

    @property
    def serving(self) -> bool:
        """Whether requests are let in. A guard that is being restarted takes nothing away from its last word."""
        return self.state in SERVING

    def ready(self, now: float) -> tuple[int, dict[str, Any]]:
        """Status and body of readiness, as the ops port says it.

        >>> Word("LOADING", "decode: weights 42 %", 10.0).ready(11.0)
        (503, {'ready': False, 'state': 'LOADING', 'reason': 'decode: weights 42 %'})
        """
        ready = self.serving and not self.silent(now)
        return (200 if ready else 503), {"ready": ready, "state": self.state, "reason": self._why(now)}

    def live(self, now: float) -> tuple[int, dict[str, Any]]:
        """Status and body of liveness."""
        live = self.state not in CLOSING and not self.silent(now)
        return (200 if live else 503), {"live": live, "state": self.state, "reason": self._why(now)}

    def silent(self, now: float) -> bool:
        """Whether the guard says nothing any more."""
        return self.beat is not None and now - self.beat > STALE_S

    def _why(self, now: float) -> str:
        silent = self.beat is not None and self.silent(now)
        return f"the guard has been silent for {now - (self.beat or 0):.0f} s" if silent else self.reason

    def retry_after(self) -> int:
        """Seconds after which it is worth to ask again; 1 to 60.

        >>> Word(eta=12.3).retry_after(), Word().retry_after(), Word("RECOVERING").retry_after()
        (13, 10, 5)
        """
        if self.eta is not None:
            return max(1, min(MOST_RETRY_S, int(self.eta) + 1))
        return 5 if self.state == "RECOVERING" else 10

    def require(self) -> None:
        """Raises Refusal 503 where nothing is served."""
        if not self.serving:
            words = f"The server is not ready: {self.state}: {self.reason}"
            raise Refusal(503, words, retry_after=self.retry_after(), close=self.state in CLOSING)


ALONE = Word("READY", "no guard is set")


def parse(text: str) -> Word | None:
    """The word of a health file; None while it is being written."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    etas = [role.get("eta_s") for role in (data.get("roles") or {}).values() if isinstance(role, dict)]
    known = [float(eta) for eta in etas if isinstance(eta, int | float)]
    beat = data.get("heartbeat_monotonic")
    limit = data.get("context_length")
    longest = limit if isinstance(limit, int) and limit > 0 else None
    return Word(str(data.get("state")), str(data.get("reason") or ""), beat, max(known, default=None), longest)


class Truth:
    """The latest word: the file is looked at, one stat, whenever somebody asks."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._seen: tuple[int, int] | None = None
        self._stopped = False
        self.word = Word() if path else ALONE
        self.look()

    def look(self) -> None:
        """Read the file if it is another one than last time."""
        if self._path is None or self._stopped:
            return
        try:
            found = self._path.stat()
            if (found.st_mtime_ns, found.st_ino) == self._seen:
                return
            word = parse(self._path.read_text(encoding="utf-8"))
        except OSError:
            self._seen, self.word = None, Word()
            return
        if word is not None:
            self._seen, self.word = (found.st_mtime_ns, found.st_ino), word

    def stop(self) -> None:
        """The front itself is being stopped, whatever the guard says: nothing new is let in."""
        self._stopped, self.word = True, Word("STOPPING", "the front is being stopped")

    def require(self) -> None:
        """Raises Refusal 503 where nothing is served now; whoever read the guard's word elsewhere finds it here."""
        self.look()
        self.word.require()

    def ready(self) -> tuple[int, dict[str, Any]]:
        """Now."""
        self.look()
        return self.word.ready(time.monotonic())

    def live(self) -> tuple[int, dict[str, Any]]:
        """Now."""
        self.look()
        return self.word.live(time.monotonic())
