"""Which cause an error of the HTTP library, the Hub's client or the file system has. Pure but for the imports."""

from __future__ import annotations

import email.utils
import errno
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping

import httpx2

from dsv4_pd.run.download import causes
from dsv4_pd.run.download.causes import Asked, Cause, Failed

# ENOENT: a place that takes no new folder, such as /proc, or a volume that went away under us.
_NO_WRITING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ENOENT,
               errno.EISDIR, errno.ELOOP, errno.EFBIG)  # fmt: skip
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # only flock asks for what a volume may not have
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_DISK = (errno.EIO, errno.ENODEV, errno.ESTALE, errno.ENXIO, errno.EREMOTEIO)
_RESET = re.compile(r'"?\w+"?;\s*r=0;\s*t=(\d+)')  # RateLimit: "api";r=0;t=55 (the Hub's header)
_NAMELESS = ("Name or service not known", "name resolution", "No address associated", "nodename nor servname")
_LONGEST = 200


def of(error: BaseException, asked: Asked) -> Failed:
    """The failure behind an exception of any library."""
    if isinstance(error, Failed):
        return error
    chain = tuple(_chain(error))
    for found in chain:
        response = getattr(found, "response", None)
        if isinstance(response, httpx2.Response):
            return of_answer(response.status_code, response.headers, asked, foreign=_foreign(response, asked))
    return next(
        (failed for one in chain if (failed := _of_one(one, chain, asked))), Failed(causes.UNKNOWN, _text(error))
    )


def of_answer(status: int, headers: Mapping[str, str], asked: Asked, *, foreign: bool = False) -> Failed:
    """The failure that an HTTP status tells. `foreign`: not the Hub answered but the storage it sent us to.

    X-Error-Code and X-Error-Message are the Hub's own; an answer without them may come from anybody in between.
    """
    code, message = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
    if status == 429:
        return Failed(causes.RATE_LIMIT, message, retry_after(headers))
    if status == 407:
        return Failed(causes.PROXY, _by_proxy(asked, asked.endpoint, "407, it asks for a password"))
    if status == 511:  # the status that was made for portals (RFC 6585)
        return Failed(causes.PORTAL, "511, log in to the network")
    if status >= 500 or status == 408:
        return Failed(causes.HUB_DOWN, str(status), retry_after(headers))
    if foreign:
        return Failed(causes.URL_REFUSED, str(status))
    hub_s = bool(code or message)
    return Failed(_refusal(status, code, hub_s, asked), _clean(message) or _clean(code) or str(status))


def _refusal(status: int, code: str, hub_s: bool, asked: Asked) -> Cause:
    """`hub_s`: the answer says that it is the Hub's."""
    by_code = {
        "GatedRepo": causes.GATED if asked.has_token else causes.NEEDS_TOKEN,
        "RevisionNotFound": causes.NO_REVISION,
        "RepoNotFound": causes.NO_MODEL,
        "EntryNotFound": causes.NOT_WHOLE,
    }
    if code in by_code:
        return by_code[code]
    if status == 401:
        return causes.BAD_TOKEN if asked.has_token else causes.NO_MODEL
    return causes.FORBIDDEN if status == 403 and hub_s else causes.PORTAL


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the Hub asks us to wait: its RateLimit header, or Retry-After in seconds or as a date.

    >>> retry_after({"Retry-After": "12"}), retry_after({"RateLimit": '"resolvers";r=0;t=40'})
    (12.0, 40.0)
    """
    if match := _RESET.search(headers.get("RateLimit", "")):
        return float(match[1])
    value = headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    moment = email.utils.parsedate_tz(value) if value else None
    return max(0.0, email.utils.mktime_tz(moment) - time.time()) if moment else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what led to it, innermost last."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _of_one(error: BaseException, chain: tuple[BaseException, ...], asked: Asked) -> Failed | None:
    """The cause that this very exception tells, or None; the connection's are told best by what led to them."""
    if isinstance(error, httpx2.ProxyError):
        return Failed(causes.PROXY, _by_proxy(asked, _address(error), _text(error)))
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return _of_connection(error, chain, asked)
    if isinstance(error, httpx2.TimeoutException):
        return Failed(causes.SILENCE, type(error).__name__)
    if isinstance(error, httpx2.TransportError):
        return Failed(causes.CUT, _text(error))
    if isinstance(error, (httpx2.DecodingError, httpx2.TooManyRedirects, UnicodeDecodeError)):
        return Failed(causes.PORTAL, _text(error))
    if isinstance(error, ValueError) and type(error).__name__ == "JSONDecodeError":
        return Failed(causes.PORTAL, "no JSON")
    return _of_system(error) if isinstance(error, OSError) and error.errno else None


def _of_connection(error: httpx2.RequestError, chain: tuple[BaseException, ...], asked: Asked) -> Failed:
    """No connection: to the proxy, where the request takes one."""
    words = "no answer in time" if isinstance(error, httpx2.ConnectTimeout) else _text(error)
    if any(isinstance(e, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(e) for e in chain):
        return Failed(causes.CERTIFICATE, words)
    if asked.proxies.of(_address(error)):
        return Failed(causes.PROXY, _by_proxy(asked, _address(error), words))
    if isinstance(error, httpx2.ConnectTimeout):
        return Failed(causes.SILENCE, type(error).__name__)
    unnamed = any(isinstance(e, socket.gaierror) or any(w in str(e) for w in _NAMELESS) for e in chain)
    return Failed(causes.NAME_LOOKUP if unnamed else causes.NO_ROUTE, words)


def _address(error: httpx2.RequestError) -> str:
    try:
        return str(error.request.url)
    except RuntimeError:  # an error without its request
        return ""


def _by_proxy(asked: Asked, url: str, words: str) -> str:
    """What went wrong, with the variable and the address of the proxy that it went wrong with."""
    proxy = asked.proxies.of(url)
    return f"{proxy[0]}={proxy[1]}: {words}" if proxy else words


def _of_system(error: OSError) -> Failed | None:
    words = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return Failed(causes.NO_ROOM, words.lower())
    if error.errno in _NO_LOCKS:
        return Failed(causes.NO_WRITING, f"a volume without file locks: {words.lower()}")
    if error.errno in _NO_WRITING:
        return Failed(causes.NO_WRITING, words.lower())
    return Failed(causes.DISK, words.lower()) if error.errno in _DISK else None


def elsewhere(url: httpx2.URL, asked: Asked) -> bool:
    """Whether an address is not the Hub's but that of the storage it sends us to."""
    return httpx2.URL(asked.endpoint).netloc != url.netloc


def _foreign(response: httpx2.Response, asked: Asked) -> bool:
    try:
        return elsewhere(response.request.url, asked)
    except RuntimeError:  # an answer without its request
        return False


def _text(error: BaseException) -> str:
    """An error in a few words, on one line."""
    return _clean(str(error)) or type(error).__name__


def _clean(text: str) -> str:
    """Words of the other side: one line, printable, not endless."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_LONGEST]
