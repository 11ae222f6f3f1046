"""The router's command line (sglang-router 0.3.2; its successor smg takes the same flags)."""

from __future__ import annotations

from collections.abc import Sequence

from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.placement.members import Member
from dsv4_pd.settings.schema import Settings

# A token is four to five bytes of text, six in a JSON escape of each byte; this is what the engine's gate lets in, too.
BYTES_PER_TOKEN = 16
PAYLOAD_MIN_BYTES = 1 << 20
# The spans of both routers have this target, and are written at info: at a higher level there is no span to send.
_SPANS = "smg::otel-trace"
# At its own info level the router writes two lines for every request, probes included.
_LEVELS = {"debug": "info", "info": "warn", "warning": "warn", "error": "error"}


def router_argv(settings: Settings, members: Sequence[Member]) -> tuple[str, ...]:
    """Flags without the keys, which the launcher adds from files."""
    return (
        "--host",
        LOOPBACK,
        "--port",
        str(settings.router_port),
        *_workers(members),
        "--policy",
        "round_robin",
        # One pair: two failing requests would open the breaker on both servers for a minute, and a retry repeats
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
        # Conversations and answers that clients had stored would stay in the router's memory, open to every client.
        "--history-backend",
        "none",
        "--prometheus-host",
        LOOPBACK,
        "--prometheus-port",
        str(settings.router_metrics_port),
        "--log-level",
        _LEVELS[settings.log_level],
    )


def trace_argv(endpoint: str | None) -> tuple[str, ...]:
    """Flags that send a span of each request to a collector (HOST:PORT)."""
    return ("--enable-trace", "--otlp-traces-endpoint", endpoint) if endpoint else ()


def trace_env(settings: Settings, endpoint: str | None) -> dict[str, str]:
    """The router's log as usual, and its spans at their own level; its flag has one level for everything.

    >>> trace_env(Settings(), "c:4317"), trace_env(Settings(), None)
    ({'RUST_LOG': 'warn,smg::otel-trace=info'}, {})
    """
    return {"RUST_LOG": f"{_LEVELS[settings.log_level]},{_SPANS}=info"} if endpoint else {}


def payload_limit(context_length: int) -> int:
    """Bytes that one request's body may have: as many as the gate in the engines takes (`dsv4_gate.sizes`).

    Both routers allow 512 MiB by themselves, and both servers tokenize a prompt on their event loop before they refuse
    it for its length, so that everybody waits for it.

    >>> payload_limit(4096), payload_limit(524288)
    (1048576, 8388608)
    """
    return max(PAYLOAD_MIN_BYTES, context_length * BYTES_PER_TOKEN)


def _limits(settings: Settings) -> tuple[str, ...]:
    """None in the router: the front lets in as many as decode takes, exactly (docs/adr/0606), and sglang-router's own
    limit is a bucket from which clients that leave take for good.
    """
    limit = ("--max-concurrent-requests", "-1")
    # smg's plain log writes what a client sent as it came, line breaks and all; its JSON escapes them. Silent streams
    # are kept open by the front, which begins before there is an answer, the same with both routers.
    return (*limit, "--log-json", "--sse-keepalive-secs", "0") if settings.router == "smg" else limit


def _workers(members: Sequence[Member]) -> tuple[str, ...]:
    """Of members on other hosts none: the guard adds each once it has agreed with the others."""
    if members and all(one.role == "single" for one in members):
        return ("--worker-urls", *(_url(one) for one in members))
    words = ["--pd-disaggregation"]
    for one in members:
        words += [f"--{one.role}", _url(one)]
        if one.bootstrap_port is not None:
            words.append(str(one.bootstrap_port))  # without it the bootstrap port is "none", not 8998
    return tuple(words)


def _url(one: Member) -> str:
    return f"http://{LOOPBACK}:{one.port}"
