"""Where an appliance with these settings answers on this machine, and its key: for status, verify and bench.

Only what is asked for is read and checked: a setting that is wrong elsewhere must not keep anybody from looking.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.host.address import url_of
from dsv4_pd.settings.fields import ADDRESS, PORT
from dsv4_pd.settings.load import secret_of
from dsv4_pd.settings.rule import Rule
from dsv4_pd.settings.schema import Settings, env_name
from dsv4_pd.settings.text import bare, given


def ops_url(environ: Mapping[str, str]) -> str:
    """The ops port.

    >>> ops_url({}), ops_url({"DSV4_OPS_HOST": "[::]", "dsv4_ops_port": "9001"})
    ('http://127.0.0.1:8001', 'http://[::1]:9001')
    """
    return url_of(_value(environ, "ops_host", ADDRESS), _value(environ, "ops_port", PORT))


def api_url(ops: str, environ: Mapping[str, str]) -> str:
    """The API beside an ops port: by the settings where the port is theirs, else on the same host.

    >>> api_url("http://gpu-box:8001", {}), api_url("http://[fd00::7]:8001", {"DSV4_PORT": "80"})
    ('http://gpu-box:8000', 'http://[fd00::7]:80')
    >>> api_url("http://127.0.0.1:8001", {"DSV4_HOST": "10.0.0.5", "DSV4_TLS_CERT": "a.pem"})
    'https://10.0.0.5:8000'
    """
    port, tls = _value(environ, "port", PORT), bool(bare(given(environ).get(env_name("tls_cert"), "")))
    here = ops.rstrip("/") == ops_url(environ)
    host = _value(environ, "host", ADDRESS) if here else urlsplit(ops).hostname or ""
    return url_of(host, port, tls=tls)


def api_key(environ: Mapping[str, str], file: Path | None = None) -> str | None:
    """The key from a file that was named, or from where `serve` takes it, read as `serve` reads it.

    Raises:
        SettingsError: it can't be read, or no client can send it.
    """
    named = {"DSV4_API_KEY_FILE": str(file)} if file else given(environ)
    return secret_of("api_key", named)


def _value(environ: Mapping[str, str], field: str, rule: Rule) -> Any:
    name = env_name(field)
    text, default = given(environ).get(name, ""), Settings.model_fields[field].default
    if not bare(text):
        return default
    try:
        return rule.apply(text)
    except ValueError as error:
        raise SettingsError([Problem(name, repr(text), str(error), f"fix or unset {name}")]) from error
