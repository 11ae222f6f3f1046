"""The text of a unit and of an environment file, line by line. Pure; systemd.syntax(7), systemd.exec(5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = ("#", ";")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOUBLE_ESCAPED = '"\\`$'


@dataclass(frozen=True, slots=True)
class Assignment:
    """`key=value` of a section; `line`: where it begins, from 1. A line that is none of these has no key."""

    section: str
    key: str
    value: str
    line: int


def read(text: str) -> Iterator[Assignment]:
    """Assignments in order. A backslash at the end of a line joins the next one; comments between are left out.

    >>> [(a.key, a.value) for a in read("[Service]\\nExecStart=/bin/a \\\\\\n# no\\n  --b 1\\nUser=x\\n")]
    [('ExecStart', '/bin/a  --b 1'), ('User', 'x')]
    """
    section = ""
    for number, line in _logical(text.removeprefix("\ufeff")):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, sign, value = line.partition("=")
        yield Assignment(section, key.strip() if sign else "", value.strip() if sign else line, number)


def _logical(text: str) -> Iterator[tuple[int, str]]:
    joined, begun = "", 0
    for number, physical in enumerate(text.splitlines(), 1):
        line = physical.lstrip()
        if line.startswith(_COMMENT) or (not line and not joined):
            continue
        begun = begun if joined else number
        if _continues(line):
            joined += line[:-1] + " "
            continue
        whole, joined = (joined + line).strip(), ""
        if whole:
            yield begun, whole
    if joined.strip():
        yield begun, joined.strip()


def _continues(line: str) -> bool:
    """Whether it ends in a backslash that no other one escapes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def environment(text: str) -> tuple[dict[str, str], list[str]]:
    """(variables of an EnvironmentFile, lines that systemd ignores).

    >>> environment('A=1 # x\\n# no\\nB="two words"\\nC=a\\\\\\nb\\nexport D=1\\n')
    ({'A': '1 # x', 'B': 'two words', 'C': 'ab'}, ['export D=1'])
    """
    found: dict[str, str] = {}
    ignored: list[str] = []
    position = 0
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position:end]
        if not line.strip() or line.lstrip().startswith(_COMMENT):
            position = _behind_comment(text, position, end)
            continue
        key, sign, _ = line.partition("=")
        if not sign or not _NAME.fullmatch(key.strip()):
            ignored.append(line.strip())
            position = end + 1
            continue
        found[key.strip()], position = _value(text, position + len(key) + 1)
    return found, ignored


def _behind_comment(text: str, position: int, end: int) -> int:
    """A comment is continued by a backslash at its end as well."""
    while end < len(text) and text[position:end].lstrip().startswith(_COMMENT) and text[end - 1] == "\\":
        following = text.find("\n", end + 1)
        end = len(text) if following < 0 else following
    return end + 1


def _value(text: str, position: int) -> tuple[str, int]:
    """A value up to its line's end, and where the next line begins."""
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    made, quote, kept = "", "", 0  # kept: how much of it blanks at the end may not be cut from
    while position < len(text):
        sign = text[position]
        position += 1
        if sign == "\n" and not quote:
            break
        if sign == "\\" and quote != "'":
            following = text[position : position + 1]
            position += 1
            literal = quote == '"' and following not in _DOUBLE_ESCAPED and following != "\n"
            made += "" if following == "\n" else ("\\" if literal else "") + following
            kept = len(made)
        elif sign == quote:
            quote, kept = "", len(made)
        elif not quote and sign in "\"'":
            quote = sign
        else:
            made += sign
            kept = len(made) if quote else kept
    return made[:kept] + made[kept:].rstrip(), position
