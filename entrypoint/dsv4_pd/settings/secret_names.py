"""Which variables hold a secret, by their names: what is not ours to show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_WORDS = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE")


def is_secret(name: str) -> bool:
    """
    >>> is_secret("HF_TOKEN"), is_secret("HF_HOME"), is_secret("DSV4_API_KEY_FILE")
    (True, False, False)
    """
    return not name.endswith("_FILE") and any(word in name.upper() for word in _WORDS)


def secrets_of(environ: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Every value that must not leave: the known ones, and those of variables that are named like a secret."""
    named = [value for name, value in environ.items() if is_secret(name) and len(value) >= 4]
    return [*filter(None, known), *named]
