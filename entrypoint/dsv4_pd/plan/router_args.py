"""The router's command line (sglang-router 0.3.2; its successor smg takes the same flags)."""

from __future__ import annotations

from typing import Literal

from dsv4_pd.settings.schema import Settings

LOOPBACK = "127.0.0.1"
# The longest run of text that this family's tokenizers make one token of (128 blanks, dashes, ...), in bytes.
LONGEST_TOKEN_BYTES = 128
# What stands around the prompt: tools, schemas, field names; and JSON's escapes where the context is small.
PAYLOAD_OVERHEAD_BYTES = 1 << 20
# At its own info level the router writes two lines for every request, probes included.
_LEVELS = {"debug": "info", "info": "warn", "warning": "warn", "error": "error"}


def router_argv(settings: Settings, mode: Literal["pd", "single"]) -> tuple[str, ...]:
    """Flags without the keys, which the launcher adds from files."""
    return (
        "--host",
        settings.host,
        "--port",
        str(settings.port),
        *_workers(settings, mode),
        "--policy",
        "round_robin",
        # One pair: two failing requests would open the breaker on both halves for a minute, and a retry repeats
        # the prefill on a pair that just failed.
        "--disable-circuit-breaker",
        "--disable-retries",
        # /health runs a real generation (up to 20 s when busy); /ready is a flag.
        "--health-check-endpoint",
        "/ready",
        "--health-check-interval-secs",
        "2",
        "--health-check-timeout-secs",
        "3",
        "--health-failure-threshold",
        "2",
        "--health-success-threshold",
        "1",
        # Workers that come later than this are never added.
        "--worker-startup-timeout-secs",
        str(int(settings.start_timeout) + 600),
        "--worker-startup-check-interval",
        "1",
        "--request-timeout-secs",
        str(int(settings.request_timeout)),
        "--shutdown-grace-period-secs",
        str(int(settings.drain_timeout)),
        *_limits(settings),
        "--max-payload-size",
        str(payload_limit(settings.context_length)),
        "--prometheus-host",
        LOOPBACK,
        "--prometheus-port",
        str(settings.router_metrics_port),
        "--log-level",
        _LEVELS[settings.log_level],
    )


def payload_limit(context_length: int) -> int:
    """Bytes that one request's body may have: more can't be a prompt that fits the context, however it is written.

    Both routers allow 512 MiB by themselves, and both halves tokenize a prompt on their event loop before they refuse
    it for its length, so that everybody waits for it.

    >>> payload_limit(4096), payload_limit(524288) >> 20
    (1572864, 65)
    """
    return context_length * LONGEST_TOKEN_BYTES + PAYLOAD_OVERHEAD_BYTES


def _limits(settings: Settings) -> tuple[str, ...]:
    """How many requests are let in, so that overload is an answer and no wait (docs/adr/0602).

    smg's limit is exact and its queue waits. sglang-router's is a bucket, refilled by as many a second as it holds
    unless told otherwise, and its queue answers a bare 408 at once; without a queue that is a 429.
    """
    limit = ("--max-concurrent-requests", str(settings.max_concurrent_requests))
    if settings.router == "smg":
        return (*limit, "--queue-size", str(settings.queue_size))
    return (*limit, "--queue-size", "0", "--rate-limit-tokens-per-second", "1")


def _workers(settings: Settings, mode: Literal["pd", "single"]) -> tuple[str, ...]:
    prefill = f"http://{LOOPBACK}:{settings.prefill_port}"
    if mode == "single":
        return ("--worker-urls", prefill)
    # Without the second value the bootstrap port is "none", not 8998.
    return (
        "--pd-disaggregation",
        "--prefill",
        prefill,
        str(settings.bootstrap_port),
        "--decode",
        f"http://{LOOPBACK}:{settings.decode_port}",
    )
