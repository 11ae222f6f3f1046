"""The types of the settings: how each kind of value is read from text, and what is refused."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, PlainSerializer, SecretStr

from dsv4_pd.settings.layout import AUTO, Layout
from dsv4_pd.settings.layout import read as read_layout

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def bare(value: Any) -> Any:
    """Strip blanks and one pair of quotes from a typed value.

    >>> bare(' "8000" ')
    '8000'
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    return text


def parse_duration(value: Any) -> Any:
    """Seconds from '90', '90s', '60m' or '1.5h'.

    >>> parse_duration("60m")
    3600.0
    """
    text = bare(value)
    if not isinstance(text, str):
        return text
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.lower())
    if not match:
        raise ValueError("a duration such as 90s, 60m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def _parse_list(value: Any) -> Any:
    """A tuple from '0,1', '[0,1]' or '0 1'.

    >>> _parse_list("[0, 1]")
    ('0', '1')
    """
    text = bare(value)
    if not isinstance(text, str):
        return text
    return tuple(bare(part) for part in re.split(r"[,\s]+", text.strip("[]() ")) if part)


def _lower(value: Any) -> Any:
    text = bare(value)
    return text.lower() if isinstance(text, str) else text


Port = Annotated[int, BeforeValidator(bare), Field(ge=1, le=65535)]
Count = Annotated[int, BeforeValidator(bare), Field(ge=1)]
Fraction = Annotated[float, BeforeValidator(bare), Field(gt=0, lt=1)]
Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
GpuList = Annotated[tuple[str, ...], BeforeValidator(_parse_list)]
Word = BeforeValidator(_lower)


def one_line(value: Any) -> Any:
    """Free text byte for byte, but on one line: it stands in files that are read line by line."""
    if isinstance(value, str) and any(mark in value for mark in "\n\r\0"):
        raise ValueError("text without a line break")
    return value


def not_a_flag(value: Any) -> Any:
    """A name that the engine takes as the word after a flag; with a dash in front it would be one itself."""
    if isinstance(value, str) and value.startswith("-"):
        raise ValueError("text that does not begin with a dash")
    return value


def shell_words(value: str) -> str:
    """Text that a shell would split into words.

    Raises:
        ValueError: for an open quote.
    """
    try:
        shlex.split(value)
    except ValueError as error:
        raise ValueError(f"shell words ({error})") from error
    return value


KEY_MAX = 4096  # bytes; half of what common proxies take as one header


class UnusableKey(ValueError):
    """A key that no client can send; `found` says why in words that don't show it."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"1 to {KEY_MAX} printable ASCII characters, no blank at either end, as `openssl rand -hex 32` makes"
        )
        self.found = found


def sendable(value: SecretStr) -> SecretStr:
    """A key that arrives as it was sent, in `Authorization: Bearer KEY`.

    HTTP drops blanks around a header's value, both routers answer 401 to any byte beyond printable ASCII, and a line
    break ends the header. The value is never part of the error.
    """
    found = _unsendable(value.get_secret_value())
    if found:
        raise UnusableKey(found)
    return value


def _unsendable(text: str) -> str | None:
    """What is wrong with a key, in words that don't show it; None when nothing is.

    >>> _unsendable("abc "), _unsendable("a b'c")
    ('a blank at its end', None)
    """
    strange = [character for character in text if not " " <= character <= "~"]
    checks = {
        "a byte order mark at its beginning": text.startswith("\ufeff"),
        "a line break": any(mark in text for mark in "\n\r"),
        "a control character": any(character < " " or character == "\x7f" for character in strange),
        "a character beyond ASCII": bool(strange),
        "a blank at its beginning": text.startswith(" "),
        "a blank at its end": text.endswith(" "),
        f"{len(text)} characters": len(text) > KEY_MAX,
    }
    return next((words for words, wrong in checks.items() if wrong), None)


def _spelled(value: Layout | None) -> str:
    return str(value) if value else AUTO


def is_duration(item: object) -> bool:
    return isinstance(item, BeforeValidator) and item.func is parse_duration


Name = Annotated[str, AfterValidator(one_line), AfterValidator(not_a_flag)]
Key = Annotated[SecretStr, AfterValidator(sendable)]
# Which flags are allowed is the plan's question: see plan/owned_flags.py.
ExtraArgs = Annotated[str, AfterValidator(one_line), AfterValidator(shell_words)]
LayoutText = Annotated[
    InstanceOf[Layout] | None, BeforeValidator(lambda value: read_layout(bare(value))), PlainSerializer(_spelled)
]
