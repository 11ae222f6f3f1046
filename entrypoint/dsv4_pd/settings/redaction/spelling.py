r"""A known secret in every spelling that a program may print it in, as one regular expression.

Python's repr, JSON, YAML, shells, URLs and markup write the same value in different ways, and one inside the other: a
key that holds both kinds of quotes is `'it\'s"x'` in a repr, and `\'it\\\'s\"x\'` in JSON of that. So each character
may have any number of backslashes before it, be an escape by number, a percent code or an entity; runs of quotes and
backslashes, which such nesting multiplies, match runs that are at least as long; blanks match line folds.

Quantifiers are possessive where they could be split in two ways, so that no text makes the search exponential.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_CHUNK = 256  # characters a pattern; a longer secret, such as a private key, is masked piece by piece
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt"}
_MARKS = "\\'\""
_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\v": "v", "\f": "f", "\0": "0", "\a": "a",
          "\b": "b", "\x1b": "e", "\x85": "N", "\xa0": "_", "\u2028": "L", "\u2029": "P"}  # fmt: skip
# Every run is bounded, so that a text of nothing but backslashes or blanks is read in linear time.
_DEEP = 32  # times that nesting may multiply a run of quotes and backslashes: five levels
_MARK = (
    r"""(?:[\\'"]|&(?i:\#39|\#34|\#x27|\#x22|apos|quot);|%%(?:25){0,8}+(?i:27|22|5c)"""
    r"""|(?<=\\)(?i:x27|x22|u0027|u0022|u005c)%s)"""
)
_MARK_FOLD = r"""|(?<=\\)\r?\n[ \t]{0,80}+(?=[\\'"])"""
_SLASHES = r"\\{1,64}+"  # before an escape
_SLASHES_TAKEN = rf"(?:{_SLASHES}|(?<=\\))"  # the same behind a run of marks, which takes every backslash
_CODES = "0[9a-d]|1[c-f]|20|85|a0"  # of what str.isspace() calls blank
_ESCAPES = rf"(?i:x(?:{_CODES})|u00(?:{_CODES})|u(?:1680|20(?:0[0-9a]|28|29|2f|5f)|3000)|[nrtvfe_NLP])"
_BLANK = rf"(?:\s|{_SLASHES}(?:{_ESCAPES}|(?=\s))|(?<=\\){_ESCAPES}|%(?:25){{0,8}}+(?i:{_CODES}))"
_LINE_FOLD = r"[ \t]{0,80}+\r?\n\s{0,80}+"
_FOLD = r"(?:\\{0,64}+\r?\n[ \t]{0,80}+\\?)?"  # YAML breaks a long quoted scalar anywhere


def pattern(secret: str, *, folds: bool = True) -> re.Pattern[str]:
    """Matches the secret, which is not empty, however it is escaped; blanks around it are left alone.

    `folds` lets a line break stand in a run of quotes and backslashes.
    """
    return re.compile(_FOLD.join(_units(secret.strip() or secret, _MARK % (_MARK_FOLD if folds else ""))))


def patterns(secrets: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """One for each secret or piece of a long one; longer secrets first, because a shorter one may stand in them."""
    ordered = sorted({secret for secret in secrets if secret}, key=lambda secret: (-len(secret), secret))
    pieces = [piece for secret in ordered for piece in _pieces(secret)]
    return tuple(pattern(piece, folds=folds) for piece in pieces for folds in _fold_choices(piece))


def _fold_choices(piece: str) -> tuple[bool, ...]:
    """A blank beside quotes may be what was folded: then it must not be read as a fold of the run."""
    return (True, False) if re.search(r"[\\'\"]\s|\s[\\'\"]", piece) else (True,)


def _pieces(secret: str) -> list[str]:
    count = -(-len(secret) // _CHUNK)
    size = -(-len(secret) // count)
    return [secret[start : start + size] for start in range(0, len(secret), size)]


def _units(secret: str, mark: str) -> Iterator[str]:
    r"""A pattern for each character, or for each run of quotes and backslashes or of blanks."""
    slashes = _SLASHES
    for run in re.findall(r"[\\'\"]+|\s+|%+|.", secret, re.DOTALL):
        if run[0] in _MARKS:
            yield f"{mark}{{{len(run)},{_DEEP * len(run)}}}+"
        elif run.isspace():
            exact = "".join(_character(character, slashes) for character in run)
            yield f"(?:{exact}|{_LINE_FOLD}|{_BLANK}{{1,{_DEEP + 4 * len(run)}}}+)"
        elif run[0] == "%":  # doubled where a program formats, 25 where a URL escapes, once a level
            spelt = ("%", "%%", "%(?:25){1,8}", rf"{slashes}(?i:x25|u0025)")
            yield f"(?:{'|'.join(f'(?:{form}){{{len(run)}}}' for form in spelt)})"
        else:
            yield _character(run, slashes)
        slashes = _SLASHES_TAKEN if run[0] in _MARKS else _SLASHES


def _character(character: str, slashes: str) -> str:
    """One character that is no quote and no backslash."""
    code, literal = ord(character), re.escape(character)
    numbers = [f"u{code:04x}", f"u\\{{0{{0,6}}{code:x}\\}}", f"U{code:08x}"]
    data = character.encode("utf-8", "surrogatepass")
    if code < 0x100:
        numbers.append(f"x{code:02x}")
    if code > 0xFFFF:
        high, low = divmod(code - 0x10000, 0x400)
        numbers.append(f"u{0xD800 + high:04x}{_SLASHES}u{0xDC00 + low:04x}")
    if code > 0x7F:
        numbers.append(_SLASHES.join(f"x{byte:02x}" for byte in data))
    short = [_SHORT[character]] if character in _SHORT else []
    forms = [literal, rf"{slashes}(?:{'|'.join([literal, *short])}|(?i:{'|'.join(numbers)}))"]
    forms.append("".join(rf"%(?:25){{0,8}}+(?i:{byte:02x})" for byte in data))
    if character == " ":
        forms.append(r"\+")  # of forms
    if code < 0x80 and not character.isalnum():
        forms.append(rf"&(?i:\#0{{0,6}}{code}|\#x0{{0,6}}{code:x}|{_ENTITIES.get(character, 'none')});")
    return f"(?:{'|'.join(forms)})"
