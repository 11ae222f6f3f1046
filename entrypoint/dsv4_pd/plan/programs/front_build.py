"""The front's part of a plan: its configuration and command line from settings. Pure."""

from __future__ import annotations

import sys
from pathlib import Path

from dsv4_pd.host.address import url_of
from dsv4_pd.host.loopback import LOOPBACK
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.front.config import FrontConfig
from dsv4_pd.plan.programs.router_args import payload_limit
from dsv4_pd.settings.schema import Settings

MODULE = "dsv4_pd.run.front"


def front_url(settings: Settings) -> str:
    """Where clients on this machine, the guard first of all, reach the API."""
    return url_of(settings.host, settings.port, tls=settings.tls_cert is not None)


def router_url(settings: Settings) -> str:
    """Where the front and the guard reach the router."""
    return url_of(LOOPBACK, settings.router_port)


def configuration(settings: Settings, paths: Paths, key_file: Path | None) -> FrontConfig:
    """What the front is told. `key_file` holds the key that clients send and, on one host, that the router asks for."""
    router_key = key_file
    if settings.role != "all":
        router_key = paths.run / "router.key" if settings.member_key else None
    return FrontConfig(
        upstream=router_url(settings),
        model=settings.served_model_name or settings.model,
        host=settings.host,
        port=settings.port,
        metrics_port=settings.front_metrics_port,
        router=settings.router,
        health_file=str(paths.health),
        key_file=_text(key_file),
        keys_file=_text(settings.api_keys_file),
        guard_key_file=str(paths.front_key),
        upstream_key_file=_text(router_key),
        cors_origins=settings.cors_origins,
        tls_cert=_text(settings.tls_cert),
        tls_key=_text(settings.tls_key),
        max_body=payload_limit(settings.context_length),
        max_concurrent=settings.max_concurrent_requests,
        queue_size=settings.queue_size,
        request_timeout=settings.request_timeout,
        drain_timeout=settings.drain_timeout,
        max_output_tokens=settings.max_output_tokens,
        request_log={"off": None, "stdout": "-"}.get(settings.request_log, settings.request_log),
        page=settings.page == "on",
        context_length=settings.context_length,
    )


def argv(config: Path) -> tuple[str, ...]:
    """The command line; the configuration is a file, because it names files of keys."""
    return (sys.executable, "-m", MODULE, "--config", str(config))


def _text(path: Path | None) -> str | None:
    return str(path) if path is not None else None
