"""What the servers' counters say about other requests: do they come through, and is a canary only behind them?

* `sglang:time_to_first_token_seconds_count` of decode moves when it gives out a request's first token, so that the KV
  cache has crossed: never for one that was aborted before, and never for `/health`. (`num_requests_total` moves for
  aborted ones too, `num_aborted_requests_total` only for those that a client gave up, and the count of
  `request_time_per_output_token_seconds` not for short answers that are not streamed.)
* `sglang:realtime_tokens_total` of prefill moves with each chunk of a long prompt. It moves as well while nothing
  crosses, so it counts only while prefill is seen with nothing left to hand over, and while no transfer fails but for
  those that clients gave up: the engine counts each of them as failed too, and as aborted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

CROSSED = "sglang:time_to_first_token_seconds_count"
_FAILED = ("sglang:num_transfer_failed_reqs_total", "sglang:num_bootstrap_failed_reqs_total")
_GIVEN_UP = "sglang:num_aborted_requests_total"
_HANDING_OVER = "sglang:num_prefill_inflight_queue_reqs"
FRESH_S = 5.0  # two samples: others came through as good as now


class Traffic:
    """A mutable record of samples. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], float] = {}
        self._crossed: deque[float] = deque(maxlen=50)
        self._failed: deque[tuple[float, float]] = deque(maxlen=50)
        self._free: deque[float] = deque(maxlen=50)

    def on_sample(self, server: str, values: Mapping[str, float], now: float, *, first: bool, last: bool) -> None:
        """One server's metrics. `first` receives the prompt, `last` answers; a single server is both."""
        if last and self._growth(server, CROSSED, values) > 0:
            self._crossed.append(now)
        failed = sum(self._growth(server, name, values) for name in _FAILED)
        self._failed.append((now, failed - self._growth(server, _GIVEN_UP, values)))
        if first and values.get(_HANDING_OVER, 0.0) == 0.0:
            self._free.append(now)

    def _growth(self, server: str, name: str, values: Mapping[str, float]) -> float:
        """Since the last sample; none at the first one, nor after a restart of the server, which counts from zero."""
        value = values.get(name, 0.0)
        before = self._before.get((server, name), value)
        self._before[server, name] = value
        return max(0.0, value - before)

    def came_through(self, now: float) -> bool:
        """Whether other requests crossed a moment ago."""
        return any(now - at <= FRESH_S for at in self._crossed)

    def only_queued(self, sent: float, moves: int) -> bool:
        """Whether what was sent then still waits for prefill, which computed for others in `moves` intervals since."""
        return moves >= 2 and self.hands_over(sent)

    def hands_over(self, sent: float) -> bool:
        """Whether prefill was seen with nothing left to hand over since then, and no transfer failed."""
        failed = sum(count for at, count in self._failed if at >= sent) > 0
        return any(at >= sent for at in self._free) and not failed
