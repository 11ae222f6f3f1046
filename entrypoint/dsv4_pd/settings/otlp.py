"""Where traces go: OpenTelemetry's own variables, as far as the routers can do what they say.

Both speak OTLP over plain gRPC, to one address.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from dsv4_pd.errors import Problem
from dsv4_pd.settings.text import bare

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
GRPC_PORT = 4317
_EXPECTED = f"the address of a collector's gRPC port, as http://HOST:{GRPC_PORT}"
_COLLECTOR = "run a collector on this host or network that takes plain gRPC and passes traces on"
_SWITCHES = ("true", "false", "on", "off", "yes", "no")


def endpoint(environ: Mapping[str, str]) -> str | None:
    """HOST:PORT, or None where no traces are wanted; `problems` says beforehand what is no address.

    >>> endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317/"}), endpoint({})
    ('collector:4317', None)
    >>> endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "[::1]"})
    '[::1]:4317'
    """
    name, text = _first(environ, ENDPOINTS)
    if not name or _is_off(environ):
        return None
    parts = urlsplit(text if "://" in text else f"http://{text}")
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or GRPC_PORT}"


def problems(environ: Mapping[str, str]) -> list[Problem]:
    """What the routers can't do: TLS, HTTP, a path."""
    name, text = _first(environ, ENDPOINTS)
    if not name or _is_off(environ):
        return []
    found = [] if _is_address(text) else [Problem(name, repr(text), _EXPECTED, _COLLECTOR)]
    protocol, value = _first(environ, PROTOCOLS)
    if protocol and value != "grpc":
        found.append(Problem(protocol, repr(value), "grpc", f"{_COLLECTOR}, or unset {name}"))
    return found


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        return False
    if parts.hostname in _SWITCHES or (parts.hostname or "").isdecimal():  # a host name by its form, and never meant so
        return False
    plain = parts.scheme == "http" and parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    return plain and bool(parts.hostname) and port != 0 and not any(sign.isspace() for sign in text)


def _is_off(environ: Mapping[str, str]) -> bool:
    told = {name: str(bare(environ.get(name, ""))).lower() for name in ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER")}
    return told["OTEL_SDK_DISABLED"] == "true" or told["OTEL_TRACES_EXPORTER"] == "none"


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """The first of these that says something, and what; two blanks where none does."""
    return next(((name, text) for name in names if (text := bare(environ.get(name, "")))), ("", ""))
