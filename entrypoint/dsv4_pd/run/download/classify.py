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

_NO_WRITING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_DISK = (errno.EIO, errno.ENODEV, errno.ESTALE)
_RESET = re.compile(r'"?\w+"?;\s*r=0;\s*t=(\d+)')  # RateLimit: "api";r=0;t=55 (the Hub's header)
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
    return next((failed for one in chain if (failed := _of_one(one, chain))), Failed(causes.UNKNOWN, _text(error)))


def of_answer(status: int, headers: Mapping[str, str], asked: Asked, *, foreign: bool = False) -> Failed:
    """The failure that an HTTP status tells. `foreign`: not the Hub answered but the storage it sent us to.

    X-Error-Code and X-Error-Message are the Hub's own; an answer without them may come from anybody in between.
    """
    code, message = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
    if status == 429:
        return Failed(causes.RATE_LIMIT, message, retry_after(headers))
    if status == 407:
        return Failed(causes.PROXY, "407, it asks for a password")
    if status >= 500 or status == 408:
        return Failed(causes.HUB_DOWN, str(status), retry_after(headers))
    if foreign:
        return Failed(causes.URL_REFUSED, str(status))
    return Failed(_refusal(status, code, asked), _clean(message) or _clean(code) or str(status))


def _refusal(status: int, code: str, asked: Asked) -> Cause:
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
    return {403: causes.FORBIDDEN}.get(status, causes.PORTAL)


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


def _of_one(error: BaseException, chain: tuple[BaseException, ...]) -> Failed | None:
    """The cause that this very exception tells, or None; the connection's are told best by what led to them."""
    if isinstance(error, httpx2.ProxyError):
        return Failed(causes.PROXY, _text(error))
    if isinstance(error, httpx2.ConnectError):
        return Failed(_of_connection(chain), _text(error))
    if isinstance(error, httpx2.TimeoutException):
        return Failed(causes.SILENCE, type(error).__name__)
    if isinstance(error, httpx2.TransportError):
        return Failed(causes.CUT, _text(error))
    if isinstance(error, (httpx2.DecodingError, httpx2.TooManyRedirects, UnicodeDecodeError)):
        return Failed(causes.PORTAL, _text(error))
    if isinstance(error, ValueError) and type(error).__name__ == "JSONDecodeError":
        return Failed(causes.PORTAL, "no JSON")
    return _of_system(error) if isinstance(error, OSError) and error.errno else None


def _of_connection(chain: tuple[BaseException, ...]) -> Cause:
    for error in chain:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return causes.CERTIFICATE
        if isinstance(error, socket.gaierror) or "Name or service not known" in str(error):
            return causes.NAME_LOOKUP
        if any(words in str(error) for words in ("name resolution", "No address associated", "nodename nor servname")):
            return causes.NAME_LOOKUP
    return causes.NO_ROUTE


def _of_system(error: OSError) -> Failed | None:
    words = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return Failed(causes.NO_ROOM, words.lower())
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
