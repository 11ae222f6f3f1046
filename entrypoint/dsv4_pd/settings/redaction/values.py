"""Secrets by the name before them: flags, fields, headers and variables, each value read to where it ends.

Reading, not guessing: a quoted value ends at its own quote, however deep both are escaped; a flag's at the blank; a
header's at the end of its line; a list's at its bracket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dsv4_pd.settings.redaction import names
from dsv4_pd.settings.redaction.shapes import Span, scheme

_STEM = re.compile(r"(?i)key|token|secret|passw|passphrase|pwd|credential|cookie|auth|proxy|bearer")
_NAME = re.compile(r"[A-Za-z0-9_.-]*")
_NAME_MAX = 80
_QUOTE = re.compile(r"""(?:[bBuUrR]{1,2}(?=['"]))?(\\*+)(["'])""")
_NOTHING = re.compile(
    r"(?i)(?:none|null|true|false|\**|\(?\d+ characters\)?)$"
)  # a quoted one may be a secret after all
_MASKED = re.compile(r"\**$")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest|negotiate|ntlm|hawk|apikey|key|aws4-hmac-sha256)\s+(?=\S)")
_BARE = re.compile(r"""(?:(?![,;)\]}](?:[\s,;)\]}]|$))[^\s&'"\\])++""")
_WORD = re.compile(r"""[^\s'"\\]++""")
_LINE = re.compile(r"[^\r\n]*+")
_WRAPPER = re.compile(r"(?:Some|SecretStr|SecretBytes|list|tuple|set|frozenset)?[\[({]")
_MARK = re.compile(r"\s*(=>|=|:|,)\s*")
_FLAG_MARK = re.compile(r"""=|\s+(?![\\'"]*--[a-z])""")  # a flag behind it: this one takes no value
_YAML_SINGLE = re.compile(r"'(?:[^']|'')*+'")
_SHELL_WORD = re.compile(r"""(?:[^\s'"\\,)\]}]|\\.|'[^']*+'|"(?:[^"\\]|\\.)*+")++""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Name:
    """A name as it stands in the text."""

    text: str
    end: int  # where it ends, its closing quote included
    quote: str  # the quote before it, backslashes included; "" when there is none
    closed: bool  # whether the same quote follows it
    opens_line: bool
    in_list: bool  # a bracket or comma stands before it

    @property
    def flag(self) -> bool:
        return self.text.startswith("--")

    @property
    def variable(self) -> bool:
        """A line of `env`: its value is raw, quotes and blanks included."""
        return self.opens_line and not self.quote and self.text.isupper() and not self.flag


def spans(text: str) -> Iterator[Span]:
    """Where the value after a secret's name stands; what says that there is no secret is left."""
    done = 0
    for stem in _STEM.finditer(text):
        if stem.start() < done:
            continue
        name = _name(text, stem.start())
        done = max(name.end, stem.end())
        yield from _proxy(text, name) if names.is_proxy(name.text) else _secret(text, name)


def _name(text: str, inside: int) -> _Name:
    """The whole name around a position, and what stands around the name."""
    start = inside
    while start > max(0, inside - _NAME_MAX) and (text[start - 1].isalnum() or text[start - 1] in "_.-"):
        start -= 1
    match = _NAME.match(text, start)
    end = match.end() if match else inside
    before = text[max(0, start - 12) : start]
    opened = re.search(r"""(\\*)(["'])$""", before)
    quote = opened[0] if opened else ""
    closed = bool(quote) and text.startswith(quote, end)
    outer = re.sub(r"""[bB]?\\*["']$""", "", before).rstrip(" ")
    return _Name(
        text=text[start:end],
        end=end + (len(quote) if closed else 0),
        quote=quote,
        closed=closed,
        opens_line=not before.strip(" \t-") or bool(re.search(r"[\r\n][ \t-]*$", before)),
        in_list=outer.endswith(("(", "[", ",")),
    )


def _proxy(text: str, name: _Name) -> Iterator[Span]:
    """A proxy's user and password, where no scheme marks them."""
    separator = re.compile(r"""\s*[:=]\s*[\\'"]*""").match(text, name.end)
    if separator:
        value = _WORD.match(text, separator.end())
        if value and "@" in value[0] and not scheme(value[0]):
            yield value.start(), value.start() + value[0].rindex("@")


def _secret(text: str, name: _Name) -> Iterator[Span]:
    if not names.is_secret(name.text) and not (name.variable and names.is_secret_variable(name.text)):
        return
    separator = _separator(text, name)
    if separator is None:
        return
    mark, begin = separator
    span = _value(text, begin, name, mark)
    while span:
        if not _says_nothing(text, span, name):
            yield span
        span = _another(text, span[1], name)


def _says_nothing(text: str, span: Span, name: _Name) -> bool:
    """No value, a switch, what is masked already; or a count of tokens, which the engine prints under many names."""
    value = text[slice(*span)]
    if text[span[0] - 1] in "\"'":
        return bool(_MASKED.match(value))
    return bool(_NOTHING.match(value)) or (value.isdecimal() and name.text.lower().endswith("token"))


def _separator(text: str, name: _Name) -> tuple[str, int] | None:
    """(what stands between the name and its value, where the value begins)."""
    if name.variable and text.startswith("=", name.end):
        return "=", name.end + 1
    if name.flag and not name.closed:
        match = _FLAG_MARK.match(text, name.end)
        return ("=" if match[0] == "=" else " ", match.end()) if match else None
    match = _MARK.match(text, name.end)
    if not match:
        return None
    mark = match[1]
    if mark == "," and not (name.closed and (name.flag or name.in_list)):
        return None
    if mark == ":" and name.text.lower() == "bearer":
        return None
    return mark, match.end()


def _value(text: str, begin: int, name: _Name, mark: str) -> Span | None:
    """From a value's first character to its last, quotes and brackets around it left out."""
    if name.variable and mark == "=":
        return _rest_of_line(text, begin, name)
    quote = _QUOTE.match(text, begin)
    yaml = name.opens_line and mark == ":" and not name.quote
    if yaml and (single := _YAML_SINGLE.match(text, begin)):  # no backslash escapes in there
        return (begin + 1, single.end() - 1) if single.end() - begin > 2 else None
    if quote:
        word = _SHELL_WORD.match(text, begin) if name.flag and not name.quote else None
        return (quote.end(), _inside(word)) if word else _quoted(text, quote, goes_on=mark == "=" and not name.quote)
    if names.is_header(name.text) or yaml:
        return _rest_of_line(text, begin, name)
    wrapper = _WRAPPER.match(text, begin)
    if wrapper:
        return wrapper.end(), _closing(text, wrapper.end())
    bare = (_WORD if name.flag else _BARE).match(text, begin)
    return bare.span() if bare else None


def _rest_of_line(text: str, begin: int, name: _Name) -> Span | None:
    """A header's value, or an unquoted one of YAML or `env`: to the end of the line, or of the quote around it all."""
    rest = _LINE.match(text, begin)
    end = rest.end() if rest else begin
    if name.quote and not name.closed and name.quote in text[begin:end]:
        end = text.index(name.quote, begin, end)
    return _past_scheme(text, begin, end)


def _inside(word: re.Match[str]) -> int:
    """The end of a shell's word, the closing quote left out where its opening one is the only other."""
    quote = word[0][0]
    return word.end() - (word[0].count(quote) == 2 and word[0].endswith(quote))


def _quoted(text: str, quote: re.Match[str], *, goes_on: bool) -> Span | None:
    """Up to the same quote with as many backslashes before it; an assignment of a shell may go on behind it."""
    begin = quote.end()
    end = _end_of_quote(text, begin, len(quote[1]), quote[2])
    after = end + len(quote[1]) + 1
    if goes_on and not quote[1] and after < len(text) and not re.match(r"[\s,;)\]}&]", text[after]):
        match = _SHELL_WORD.match(text, after)
        return begin, match.end() if match else end
    begin, end = _past_scheme(text, begin, end) or (begin, end)
    return (begin, end) if end > begin else None


def _end_of_quote(text: str, begin: int, depth: int, mark: str) -> int:
    """Where a quote at this depth of escaping closes; the end of the text when it never does.

    A doubled quote, as YAML and SQL write one inside another, goes on.
    """
    matches = re.compile(rf"(\\*+){mark}").finditer(text, begin)
    for match in matches:
        if len(match[1]) != depth:
            continue
        if not depth and text.startswith(mark, match.end()):
            next(matches, None)
            continue
        return match.start()
    return len(text)


def _closing(text: str, begin: int) -> int:
    """Where the bracket that was opened before `begin` closes; quoted brackets don't count."""
    depth, position = 1, begin
    while position < len(text):
        character = text[position]
        if character in "\"'":
            position = _end_of_quote(text, position + 1, 0, character)
        depth += (character in "[({") - (character in "])}")
        if not depth:
            return position
        position += 1
    return len(text)


def _past_scheme(text: str, begin: int, end: int) -> Span | None:
    """`Bearer` and its like are no secret; what follows them is."""
    scheme = _SCHEME.match(text, begin, end)
    begin = scheme.end() if scheme else begin
    return (begin, end) if end > begin else None


def _another(text: str, after: int, name: _Name) -> Span | None:
    """One more value of a flag that takes many, such as --control-plane-api-keys."""
    if not (name.flag and name.text.endswith("s")):
        return None
    gap = re.compile(r"""[\\'"]*(?:\s*,\s*|\s+)(?![\\'"]*-)""").match(text, after)
    if not gap:
        return None
    return _value(text, gap.end(), name, " ")
