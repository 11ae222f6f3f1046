"""Listening addresses as routers, browsers and our own commands write them. Pure."""

from __future__ import annotations

from dsv4_pd.host.loopback import LOOPBACK

_ANY = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}


def bracketed(host: str) -> str:
    """An address as it stands before a port: IPv6 in brackets, which both routers want for listening, too.

    >>> bracketed("::1"), bracketed("10.0.0.5"), bracketed("[::]")
    ('[::1]', '10.0.0.5', '[::]')
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def reachable(host: str) -> str:
    """The address at which this machine itself reaches what listens on `host`.

    >>> reachable("0.0.0.0"), reachable("::"), reachable("10.0.0.5")
    ('127.0.0.1', '::1', '10.0.0.5')
    """
    return _ANY.get(host, host)


def url_of(host: str, port: int, *, tls: bool = False) -> str:
    """The URL at which this machine reaches a server that listens there.

    >>> url_of("::", 8000), url_of("10.0.0.5", 8443, tls=True)
    ('http://[::1]:8000', 'https://10.0.0.5:8443')
    """
    return f"{'https' if tls else 'http'}://{bracketed(reachable(host))}:{port}"
