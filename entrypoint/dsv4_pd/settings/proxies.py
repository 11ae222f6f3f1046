"""Which proxy a request takes, by the variables and rules of the HTTP library (httpx2, `_utils.py`). Pure.

A test holds the answers against the library's own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

_KINDS = ("http", "https", "all")
Proxy = tuple[str, str]  # (variable, address as it was given)


@dataclass(frozen=True, slots=True)
class Proxies:
    """Proxies by scheme, and what is asked directly."""

    by_scheme: Mapping[str, Proxy] = field(default_factory=dict)
    direct: tuple[str, ...] = ()

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Proxies:
        """The proxies of an environment; none where NO_PROXY has a star.

        >>> Proxies.read({"https_proxy": "p:3128", "NO_PROXY": "a, b"})
        Proxies(by_scheme={'https': ('https_proxy', 'http://p:3128')}, direct=('a', 'b'))
        """
        _, no = _variable("no", environ)
        direct = tuple(part for part in map(str.strip, no.split(",")) if part)
        found = {kind: _variable(kind, environ) for kind in _KINDS if "*" not in direct}
        whole = {kind: (name, text if "://" in text else f"http://{text}") for kind, (name, text) in found.items()}
        return cls({kind: proxy for kind, proxy in whole.items() if found[kind][1]}, direct)

    def of(self, url: str) -> Proxy | None:
        """The proxy of a request, without the password in its address; None: it is sent directly."""
        target = urlsplit(url)
        proxy = self.by_scheme.get(target.scheme) or self.by_scheme.get("all")
        if proxy is None or any(_matches(pattern, target) for pattern in self.direct):
            return None
        return proxy[0], shown(proxy[1])


def shown(address: str) -> str:
    """An address without its user: all up to the last @ is the user's, escaped or not.

    >>> shown("http://bob:p@ss@proxy:3128"), shown("http://proxy:3128/")
    ('http://proxy:3128', 'http://proxy:3128/')
    """
    scheme, mark, rest = address.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def _variable(kind: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """(name, value): the name in small letters wins, even when it is blank, as in the standard library."""
    small = f"{kind}_proxy"
    if small in environ:
        return small, environ[small]
    names = [name for name in environ if name.lower() == small]
    return (names[-1], environ[names[-1]]) if names else (small.upper(), "")


def _matches(pattern: str, target: SplitResult) -> bool:
    """Whether an entry of NO_PROXY covers a request.

    >>> _matches("a.example", urlsplit("https://hub.a.example")), _matches(".a.example", urlsplit("http://a.example"))
    (True, False)
    """
    scheme, mark, rest = pattern.rpartition("://")
    host, port = _parted(rest.lower())
    standard = {"http": 80, "https": 443}.get(target.scheme)
    if (mark and scheme not in ("all", target.scheme)) or port not in (None, _other(target.port, standard)):
        return False
    name = (target.hostname or "").lower()
    if (network := _network(host)) is not None:
        address = _network(name)
        return address is not None and address.version == network.version and address.subnet_of(network)  # type: ignore[arg-type]
    if host.startswith(("*.", ".")):
        return name.endswith(host.removeprefix("*"))
    exact = mark or host == "localhost"  # a whole address is meant as it is written
    return name == host or (not exact and name.endswith(f".{host}"))


def _other(port: int | None, standard: int | None) -> int | None:
    """A port that an address has to name; the library's entries with the standard one match nothing."""
    return None if port == standard else port


def _parted(text: str) -> tuple[str, int | None]:
    """Host and port of an entry; a network's prefix length is part of its host."""
    if text.count(":") == 1 and text.rpartition(":")[2].isdecimal():
        host, _, port = text.rpartition(":")
        return host, int(port)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, int(rest[1:]) if rest[1:].isdecimal() else None
    return text, None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
