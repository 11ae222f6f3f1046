"""Secrets that say themselves what they are: in URLs, and tokens whose makers gave them a shape."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsv4_pd.settings.redaction import names

Span = tuple[int, int]  # start and end in the text
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REST = re.compile(r"""[^\s'"`<>\\]*+""")
_PARAMETER = re.compile(r"""[?&;]([\w.%~-]{1,64})=([^\s&#;'"`<>\\]++)""")
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?(?:[/?#]|$)")
_TOKENS = re.compile(
    r"""\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}
    |xox[abeoprs]-[\w-]{10,}|nvapi-[\w-]{16,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}
    |eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"""
    r"""|-----BEGIN\ [A-Z ]{0,20}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]{0,20}PRIVATE\ KEY-----|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_BEARER = re.compile(r"(?i)\bbearer\s+(?![a-z]+\b)([\w.~+/=-]{6,})")


def spans(text: str) -> Iterator[Span]:
    """Where a URL's user part, a secret parameter or a token stands."""
    yield from _user_parts(text)
    yield from (match.span(2) for match in _PARAMETER.finditer(text) if names.is_secret_parameter(match[1]))
    yield from (match.span() for match in _TOKENS.finditer(text))
    yield from (match.span(1) for match in _BEARER.finditer(text))


def _user_parts(text: str) -> Iterator[Span]:
    start = text.find("://")
    while start >= 0:
        begin = start + 3
        match = _REST.match(text, begin)
        rest = match[0] if match else ""
        length = user_part(rest)
        if length:
            yield begin, begin + length
        start = text.find("://", begin)


def scheme(address: str) -> int:
    """How many characters an address's scheme takes, its `://` included; a password may hold one, too.

    >>> scheme("http://u:p@h"), scheme("u:p@h"), scheme("u:p://x@h")
    (7, 0, 0)
    """
    match = _SCHEME.match(address)
    return match.end() if match else 0


def user_part(rest: str) -> int:
    """How many characters after `://` are the user and password; 0 when there are none.

    A password may hold what should have been escaped. An `@` before the first slash ends a user part, and then the
    last `@` that a host follows ends it; behind a slash it is a path's own, unless a name that is no port came before.

    >>> [user_part(text) for text in ("u:p@h", "token@h:80/x", "u:p/ss@h:80", "u:p@ss@h/", "h/x@v1", "h:80/x@v1")]
    [3, 5, 6, 6, 0, 0]
    """
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    colon = authority.partition(":")[2]
    if "@" not in authority and (not colon or colon.isdecimal()):
        return 0
    ends = [match.start() for match in re.finditer("@", rest)]
    return next((end for end in reversed(ends) if _HOST.match(rest, end + 1)), ends[-1] if ends else 0)
