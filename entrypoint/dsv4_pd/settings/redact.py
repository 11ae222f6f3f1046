"""Keep secrets out of whatever the appliance prints: SGLang prints its arguments, keys included, at start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from dsv4_pd.settings.redaction import names, shapes, spelling, values

MASK = "***"
_KNOWN_MIN = 6  # shorter values of the environment are words and switches; a setting's secret counts at any length


class Redactor:
    """Masks known secret values in any spelling, and what its name or shape says is one.

    >>> Redactor(["s3cret"]).text("key s3cret, api_key='x y'")
    "key ***, api_key='***'"
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = spelling.patterns(secrets)

    def text(self, text: str) -> str:
        """The text, of one line or many, with every secret masked."""
        for pattern in self._known:
            text = pattern.sub(MASK, text)
        return _mask(text, sorted([*values.spans(text), *shapes.spans(text)]))

    line = text

    def data(self, value: Any, name: str = "") -> Any:
        """The same for JSON values: a secret's name masks its whole value, lists of arguments are read as such."""
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.data(item, str(key)) for key, item in value.items()}
        if isinstance(value, str):
            return self._value(name, value)
        if isinstance(value, list | tuple):
            return list(self._items(value))
        return value

    def _value(self, name: str, value: str) -> str:
        if value and names.is_secret_variable(name):
            return MASK
        if names.is_proxy(name) and "@" in value:
            # A password may hold what should have been escaped: all from the scheme to the last @ is the user's.
            begin, end = shapes.scheme(value), value.rindex("@")
            return f"{value[:begin]}{MASK}{value[end:]}" if end > begin else value
        return self.text(value)

    def _items(self, items: Iterable[Any]) -> Iterator[Any]:
        """Words of a command line: the one after a secret's flag, or all up to the next flag."""
        flag = ""
        for item in items:
            if isinstance(item, str) and item.startswith("-"):
                flag = item if names.is_secret(item) and "=" not in item else ""
                head, mark, _ = item.partition("=")
                yield f"{head}={MASK}" if mark and names.is_secret(head) else self.text(item)
            elif flag and isinstance(item, str):
                yield MASK
                flag = flag if flag.endswith("s") else ""
            else:
                yield self.data(item)


def known_secrets(environ: Mapping[str, str], settings: Iterable[str] = ()) -> tuple[str, ...]:
    """Every value that must not be shown: the settings' own, of variables named like a secret, of users in URLs.

    >>> known_secrets({"HF_TOKEN": "abcdefgh", "HTTPS_PROXY": "http://bob:p%40ssword@proxy:3128"}, ["k"])
    ('k', 'abcdefgh', 'bob:p%40ssword', 'p%40ssword', 'p@ssword')
    """
    found = dict.fromkeys(secret for secret in settings if secret)
    for name, value in environ.items():
        candidates = [value] if names.is_secret_variable(name) else list(_user_parts(name, value))
        found |= dict.fromkeys(item for item in candidates if len(item) >= _KNOWN_MIN and not item.isdecimal())
    return tuple(found)


def _user_parts(name: str, value: str) -> Iterator[str]:
    """The user and password of a URL: together, the password alone, and the password as it was before escaping."""
    if names.is_proxy(name):
        user = value[shapes.scheme(value) : max(0, value.rfind("@"))]
    else:
        rest = value.partition("://")[2]
        user = rest[: shapes.user_part(rest)]
    if user:
        password = user.partition(":")[2] or user
        yield from (user, password, unquote(password))


def _mask(text: str, spans: list[tuple[int, int]]) -> str:
    parts, end = [], 0
    for start, stop in spans:
        if stop <= end:
            continue
        if start >= end:
            parts += [text[end:start], MASK]
        end = stop
    return "".join([*parts, text[end:]])
