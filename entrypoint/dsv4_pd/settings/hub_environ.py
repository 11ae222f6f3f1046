"""What huggingface_hub and its HTTP library read of the environment, checked before they read it.

They import, connect or give up with errors of their own words: a number that is none ends the import, a proxy of
another kind every request, an address without `https://` looks like a cut connection. Blank means unset.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dsv4_pd.errors import Problem
from dsv4_pd.settings.proxies import Proxies

ENDPOINT = "HF_ENDPOINT"
_SECONDS = ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT")
_SCHEMES = ("http", "https")


def blanks(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The library's variables that are set to nothing: it would take that for a value.

    >>> blanks({"HF_ENDPOINT": "", "HF_HOME": "/x", "PATH": ""})
    ('HF_ENDPOINT',)
    """
    return tuple(name for name, value in environ.items() if name.startswith("HF_") and not value.strip())


def numbers(environ: Mapping[str, str]) -> list[Problem]:
    """Values with which no program could even load the library, the servers included."""
    return [
        Problem(name, repr(text), "a whole number of seconds, such as 10", f"fix or unset {name}")
        for name in _SECONDS
        if (text := environ.get(name, "").strip()) and not _is_count(text)
    ]


def _is_count(text: str) -> bool:
    try:
        return int(text) >= 0
    except ValueError:
        return False


def way_problems(environ: Mapping[str, str]) -> list[Problem]:
    """What stands in the way to the Hub, whatever answers there: asked only where it is needed."""
    return [*_endpoint(environ), *_proxies(environ), *_certificates(environ)]


def _endpoint(environ: Mapping[str, str]) -> Iterator[Problem]:
    text = environ.get(ENDPOINT, "").strip()
    if text and not _is_address(text):
        host = text.partition("://")[2] if "://" in text else text
        remedy = f"set {ENDPOINT}=https://{host.strip('/') or 'HOST'}, or unset it for the Hub itself"
        yield Problem(ENDPOINT, repr(text), "an address such as https://hub.example.org", remedy)


def _proxies(environ: Mapping[str, str]) -> Iterator[Problem]:
    for variable, address in Proxies.read(environ).by_scheme.values():
        if not _is_address(address):
            scheme = address.partition("://")[0].lower()
            found = f"a proxy by {scheme}" if scheme not in _SCHEMES else "an address (hidden) that can't be read"
            why = " (SOCKS is not supported)" if scheme.startswith("socks") else ""
            remedy = f"name an HTTP proxy{why}, or unset {variable}"
            yield Problem(variable, found, "http://HOST:PORT or https://HOST:PORT", remedy)


def _certificates(environ: Mapping[str, str]) -> Iterator[Problem]:
    """The library takes the folder only where no file is named."""
    file, folder = environ.get("SSL_CERT_FILE", ""), environ.get("SSL_CERT_DIR", "")
    if file:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            why = "no certificate in it" if isinstance(error, ssl.SSLError) else str(getattr(error, "strerror", error))
            remedy = "mount it in this container, fix the path, or unset SSL_CERT_FILE"
            yield Problem("SSL_CERT_FILE", f"{file!r} ({why.lower()})", "a file of certificates in PEM", remedy)
    elif folder and not Path(folder).is_dir():
        remedy = "mount it in this container, fix the path, or unset SSL_CERT_DIR"
        yield Problem("SSL_CERT_DIR", f"{folder!r}, which is no folder", "a folder of certificates", remedy)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0 and text.isprintable()
    except ValueError:
        return False
