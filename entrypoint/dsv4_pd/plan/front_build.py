"""The front's part of a plan: its configuration from settings, and what supervisord runs. Pure."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from dsv4_pd.plan.front_config import FrontConfig, RouterName

MODULE = "dsv4_pd.front"


@dataclass(frozen=True, slots=True)
class Door:
    """What the operator says of the door; each is a setting, and None or empty is its default."""

    host: str
    port: int
    metrics_port: int
    keys_file: Path | None = None  # DSV4_API_KEYS_FILE
    cors_origins: tuple[str, ...] = ()  # DSV4_CORS_ORIGINS
    tls_cert: Path | None = None  # DSV4_TLS_CERT
    tls_key: Path | None = None  # DSV4_TLS_KEY
    max_output_tokens: int | None = None  # DSV4_MAX_OUTPUT_TOKENS
    request_log: str | None = None  # DSV4_REQUEST_LOG
    page: bool = True  # DSV4_PAGE


@dataclass(frozen=True, slots=True)
class Behind:
    """What stands behind the door. Files hold the keys: the client's, the router's, the guard's own."""

    router: RouterName
    router_port: int  # on loopback
    model: str
    health_file: Path
    key_file: Path | None
    guard_key_file: Path
    max_body: int
    max_concurrent: int
    queue_size: int
    request_timeout: float


def configuration(door: Door, behind: Behind) -> FrontConfig:
    """What the front is told; `key_file` opens the router too, which asks for the same key on loopback."""
    return FrontConfig(
        upstream=f"http://127.0.0.1:{behind.router_port}",
        model=behind.model,
        host=door.host,
        port=door.port,
        metrics_port=door.metrics_port,
        router=behind.router,
        health_file=str(behind.health_file),
        key_file=_text(behind.key_file),
        keys_file=_text(door.keys_file),
        guard_key_file=str(behind.guard_key_file),
        upstream_key_file=_text(behind.key_file),
        cors_origins=door.cors_origins,
        tls_cert=_text(door.tls_cert),
        tls_key=_text(door.tls_key),
        max_body=behind.max_body,
        max_concurrent=behind.max_concurrent,
        queue_size=behind.queue_size,
        request_timeout=behind.request_timeout,
        max_output_tokens=door.max_output_tokens,
        request_log=door.request_log,
        page=door.page,
    )


def argv(config: Path) -> tuple[str, ...]:
    """The command line; the configuration is a file, because it names files of keys."""
    return (sys.executable, "-m", MODULE, "--config", str(config))


def _text(path: Path | None) -> str | None:
    return str(path) if path is not None else None
