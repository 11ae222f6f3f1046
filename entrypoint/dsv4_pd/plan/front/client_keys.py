"""Who is asking: the keys that clients send, their names and limits. Pure but for `load`.

The file (`DSV4_API_KEYS_FILE`) is TOML, one table a name:

    [alice]
    key = "..."                  # or sha256 = "64 hex digits", so that the file holds no secret
    requests_per_minute = 60     # each limit may be left out
    tokens_per_minute = 200000   # prompt and answer together
    concurrent = 8
"""

from __future__ import annotations

import hashlib
import hmac
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GUARD = "guard"  # the appliance's own test requests
DEFAULT = "default"  # the one key of DSV4_API_KEY
ANYONE = "anyone"  # where no key is set
NOBODY = "none"  # who brought no valid key, or found no route
OURS = (GUARD, DEFAULT, ANYONE, NOBODY)
LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


class KeysError(ValueError):
    """A file of keys that can't be used: where, found, expected."""


@dataclass(frozen=True, slots=True)
class Key:
    """One client. `digest`: SHA-256 of what it sends; a limit of None is none."""

    name: str
    digest: bytes
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None


def of_secret(name: str, secret: str) -> Key:
    """A key without limits."""
    return Key(name, digest(secret))


def digest(secret: str) -> bytes:
    """What is kept and compared: it has one length, whatever a client sends."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def presented(headers: Mapping[str, str]) -> str | None:
    """The key that a request brings: a bearer token, or Anthropic's header; the first counts where both are there.

    >>> presented({"Authorization": "bearer  abc"}), presented({"x-api-key": "abc"}), presented({})
    ('abc', 'abc', None)
    """
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key") or None


def find(secret: str, keys: Iterable[Key]) -> Key | None:
    """The key with this secret. Every one is compared, each in constant time, so that time tells nothing."""
    sent, found = digest(secret), None
    for key in keys:
        if hmac.compare_digest(sent, key.digest):
            found = key
    return found


def parse(text: str, where: str) -> tuple[Key, ...]:
    """The keys of a file; raises KeysError with every problem in it.

    >>> parse('[alice]\\nkey = "abc"\\nconcurrent = 2', "keys.toml")[0].concurrent
    2
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KeysError(f"{where}: no TOML ({_placed(error)})") from None
    problems: list[str] = []
    keys = [_key(name, table, problems) for name, table in tables.items()]
    whole = tuple(key for key in keys if key is not None)
    if len({key.digest for key in whole}) < len(whole):
        problems.append("two names have the same key")
    if not tables:
        problems.append("found no key, expected at least one [name] with key or sha256")
    if problems:
        raise KeysError("; ".join(f"{where}: {problem}" for problem in problems))
    return whole


def _placed(error: tomllib.TOMLDecodeError) -> str:
    """Where it is, and none of the text, which may be a secret."""
    found = re.search(r"line \d+, column \d+", str(error))
    return f"at {found[0]}" if found else "at its end"


def _key(name: str, table: Any, problems: list[str]) -> Key | None:
    if not isinstance(table, dict):
        problems.append(f"{name!r} is no table, expected [{name}] and below it key = ...")
        return None
    before = len(problems)
    if not _NAME.fullmatch(name) or name in OURS:
        problems.append(f"[{name[:80]}]: expected a name of letters, digits, dot, dash, none of {', '.join(OURS)}")
    if unknown := table.keys() - {"key", "sha256", *LIMITS}:
        problems.append(f"[{name}]: unknown {', '.join(sorted(unknown))}, expected key, sha256, {', '.join(LIMITS)}")
    secret, known = table.get("key"), table.get("sha256")
    if (secret is None) == (known is None):
        problems.append(f"[{name}]: expected key or sha256, one of the two")
    elif secret is not None and not _sendable(secret):
        problems.append(f"[{name}] key: expected printable ASCII without blanks at its ends")
    elif known is not None and not (isinstance(known, str) and _SHA256.fullmatch(known)):
        problems.append(f"[{name}] sha256: expected 64 hex digits")
    problems += [
        f"[{name}] {limit}: found {table[limit]!r}, expected a whole number of at least 1"
        for limit in LIMITS
        if limit in table and not _is_count(table[limit])
    ]
    if len(problems) > before:
        return None
    bounds = {limit: table[limit] for limit in LIMITS if limit in table}
    return Key(name, bytes.fromhex(known) if known is not None else digest(str(secret)), **bounds)


def _sendable(secret: Any) -> bool:
    """Whether a header can carry it."""
    return isinstance(secret, str) and secret != "" and secret == secret.strip() and _printable(secret)


def _printable(text: str) -> bool:
    return all(" " <= sign <= "~" for sign in text)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def load(path: Path) -> tuple[Key, ...]:
    """The keys of a file; raises KeysError."""
    try:
        return parse(path.read_text(encoding="utf-8-sig"), str(path))
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KeysError(f"{path}: no UTF-8") from None
