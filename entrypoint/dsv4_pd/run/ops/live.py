"""What moves right now, for `status --watch` and the web page: gauges, and counters that give rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dsv4_pd.run.ops.exposition import Sample, samples
from dsv4_pd.run.ops.kv_link import link_of
from dsv4_pd.run.ops.own import total
from dsv4_pd.run.states import WAY

# A request of a pair waits in queues that only one role has; for a person they are one.
_QUEUES = (
    "sglang:num_queue_reqs",
    "sglang:num_prefill_bootstrap_queue_reqs",
    "sglang:num_decode_prealloc_queue_reqs",
    "sglang:num_decode_transfer_queue_reqs",
)
_RUNNING = ("sglang:num_running_reqs", "sglang:num_prefill_inflight_queue_reqs")

HOLDS = (*_QUEUES, *_RUNNING)  # of a server: none of them, and nobody waits for it


def live(texts: Mapping[str, str | None], now: float) -> dict[str, Any]:
    """The reading; `now` in epoch seconds. Roles that do not answer are None."""
    read = {role: samples(text) for role, text in texts.items() if text is not None and role not in WAY}
    everything = [sample for found in read.values() for sample in found]
    return {
        "time": round(now, 3),
        "roles": {role: _role(read[role]) if role in read else None for role in texts if role not in WAY},
        "link": link_of(partial(total, everything)).document(),
    }


def _role(seen: Sequence[Sample]) -> dict[str, Any]:
    return {
        "running": sum(total(seen, name) for name in _RUNNING),
        "queued": sum(total(seen, name) for name in _QUEUES),
        "prompt_tokens": _mode(seen, "prefill_compute") + _mode(seen, "prefill_cache"),
        "cached_tokens": _mode(seen, "prefill_cache"),
        "output_tokens": _mode(seen, "decode"),
        "requests": total(seen, "sglang:num_requests_total"),
        "kv_use": max((s.value for s in seen if s.name == "sglang:token_usage"), default=None),
    }


def _mode(seen: Sequence[Sample], mode: str) -> float:
    """Tokens of one kind; this counter moves inside long requests, the per-request ones only at their end."""
    return sum(s.value for s in seen if s.name == "sglang:realtime_tokens_total" and s.labels.get("mode") == mode)


def rates(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Per role, tokens and requests a second between two readings; a counter that fell was a restart and counts as 0.

    >>> rates({"time": 0, "roles": {"decode": {"output_tokens": 10}}},
    ...       {"time": 2, "roles": {"decode": {"output_tokens": 30}}})
    {'decode': {'output_tokens': 10.0}}
    """
    seconds = after["time"] - before["time"]
    found: dict[str, dict[str, float]] = {}
    for role, new in after["roles"].items():
        old = before["roles"].get(role)
        if not new or not old or seconds <= 0:
            continue
        counters = [key for key in ("prompt_tokens", "output_tokens", "requests") if key in new and key in old]
        found[role] = {key: max(0.0, new[key] - old[key]) / seconds for key in counters}
    return found
