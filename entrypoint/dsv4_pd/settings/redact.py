"""Keep secrets out of whatever the appliance prints: SGLang prints its arguments, keys included, at start."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
# Keys by name, in Python reprs, JSON, YAML, URLs and command lines, and tokens by shape.
_PATTERNS = (
    re.compile(r"(?i)((?:admin_|admin-)?api[_-]key['\"]?\s*[=:]\s*)(['\"])(?!None\b)(?:(?!\2).)*\2"),
    re.compile(r"(?i)((?:admin_|admin-)?api[_-]key['\"]?\s*[=:]\s*)(?!None\b|null\b|['\"])([^\s,;&)}\]]+)"),
    re.compile(r"(?i)(--(?:admin-)?api-key\s+)(\S+)"),
    re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)([^\s'\",]+)"),
    re.compile(r"\b()(hf_[A-Za-z0-9]{16,})\b"),
    re.compile(r"(://[^/\s:@]+:)([^@\s/]+)(?=@)"),
)


class Redactor:
    """Masks known secret values, and what looks like one.

    >>> Redactor(["s3cret"]).line("key s3cret, api_key='x y'")
    "key ***, api_key='***'"
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = sorted({s for s in secrets if s}, key=len, reverse=True)

    def line(self, text: str) -> str:
        """The text with every secret masked."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        text = _PATTERNS[0].sub(rf"\1\2{MASK}\2", text)
        for pattern in _PATTERNS[1:]:
            text = pattern.sub(rf"\1{MASK}", text)
        return text
