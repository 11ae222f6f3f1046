"""Words as systemd splits them, and the variables in a command line. Pure; systemd.syntax(7), systemd.service(5).

What the manual leaves open is as extract-word.c does it: quotes open anywhere in a word, an unknown escape keeps its
backslash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_LITERAL = "\\\"'"
_NUMBERED = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{3})")
_BRACED = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Unreadable(ValueError):
    """A text that systemd would refuse as well."""


def split(text: str) -> list[str]:
    """Words of a value with quotes and escapes undone.

    >>> split("'FOO=a b' BAR=\\"c d\\"e  X=\\\\x41")
    ['FOO=a b', 'BAR=c de', 'X=A']

    Raises:
        Unreadable: for an open quote.
    """
    words: list[str] = []
    position, length = 0, len(text)
    while True:
        while position < length and text[position].isspace():
            position += 1
        if position >= length:
            return words
        word, position = _word(text, position)
        words.append(word)


def _word(text: str, position: int) -> tuple[str, int]:
    made, quote = "", ""
    while position < len(text):
        sign = text[position]
        if sign == "\\":
            unescaped, position = _escape(text, position + 1)
            made += unescaped
            continue
        position += 1
        if quote and sign == quote:
            quote = ""
        elif not quote and sign in "\"'":
            quote = sign
        elif not quote and sign.isspace():
            return made, position
        else:
            made += sign
    if quote:
        raise Unreadable(f"a quote ({quote}) that is never closed")
    return made, position


def _escape(text: str, position: int) -> tuple[str, int]:
    """What stands behind a backslash; one that means nothing keeps it."""
    if position >= len(text):
        return "\\", position
    sign = text[position]
    if sign in _LITERAL:
        return sign, position + 1
    if sign in _SIMPLE:
        return _SIMPLE[sign], position + 1
    if found := _NUMBERED.match(text, position):
        digits = next(part for part in found.groups() if part)
        return chr(int(digits, 8 if found[4] else 16)), found.end()
    return "\\" + sign, position + 1


def expand(words: list[str], variables: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(words with their variables, names that have no value). `$X` is a word of its own and may become several.

    >>> expand(["run", "$FLAGS", "--port=${PORT}", "$$5", "a$PORT"], {"FLAGS": "--a 'b c'", "PORT": "80"})
    (['run', '--a', 'b c', '--port=80', '$5', 'a$PORT'], [])
    """
    made, missing = words[:1], []
    for word in words[1:]:
        if word.startswith("$") and word[1:2] not in ("{", "$", ""):
            name = word[1:]
            missing += [] if name in variables else [name]
            made += split(variables.get(name, ""))
            continue
        names = [found for found in _BRACED.findall(word) if found]
        missing += [name for name in names if name not in variables]
        made.append(_BRACED.sub(lambda found: variables.get(found[1], "") if found[1] else "$", word))
    return made, missing


def specified(text: str, unit: str, user: str = "") -> tuple[str, list[str]]:
    """(text with the specifiers that are known without the machine, those that are not).

    >>> specified("%i %N 100%% %H", "pd@prefill.service")
    ('prefill pd@prefill 100% %H', ['%H'])
    """
    stem = unit.rpartition(".")[0] or unit
    prefix, _, instance = stem.partition("@")
    home = "/root" if user in ("", "root", "0") else f"/home/{user}"
    known = {
        "%": "%", "n": unit, "N": stem, "p": prefix, "P": prefix, "i": instance, "I": instance,
        "j": prefix.rpartition("-")[2], "h": home, "u": user or "root", "t": "/run", "S": "/var/lib", "C": "/var/cache",
        "L": "/var/log", "E": "/etc", "T": "/tmp", "V": "/var/tmp",
    }  # fmt: skip
    unknown = [f"%{letter}" for letter in re.findall(r"%(.)", text.replace("%%", "")) if letter not in known]
    return re.sub(r"%(.)", lambda found: known.get(found[1], found[0]), text), unknown
