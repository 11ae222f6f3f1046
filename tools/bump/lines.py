"""Whether the engine can still write a line that we read: literal pieces of our patterns against its own strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from bump.source import HOLE

SHORTEST = 6  # a shorter piece says little
MOST_FILLED = 40  # characters of a piece that a value may stand for
Pieces = tuple[str, ...]


def pieces_of_regex(pattern: str) -> list[Pieces]:
    r"""The literal pieces of each alternative; optional parts, which a line may lack, are left out.

    >>> pieces_of_regex(r"(?:Error: )?(?:Page size|KV layout) mismatch \(pid=\d+\)")
    [('Page size mismatch (pid=',), ('KV layout mismatch (pid=',)]
    """
    found = []
    for text in _expand(parser.parse(pattern)):
        pieces = tuple(piece for piece in text.split(HOLE) if len(piece.strip()) >= SHORTEST)
        if pieces and pieces not in found:
            found.append(pieces)
    return found


def _expand(sequence: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    parts = [list(_one(code, argument)) for code, argument in sequence]
    for chosen in product(*parts):
        yield "".join(chosen)


def _one(code: Any, argument: Any) -> Iterator[str]:
    if code is codes.LITERAL:
        yield chr(argument)
    elif code is codes.SUBPATTERN:
        yield from _expand(argument[-1])
    elif code is codes.BRANCH:
        for branch in argument[1]:
            yield from _expand(branch)
    elif code is codes.MAX_REPEAT and argument[0] == 0 and argument[1] == 1:
        yield ""
    else:
        yield HOLE


def is_written(pieces: Pieces, texts: Iterable[str]) -> bool:
    """One string of the engine holds every piece."""
    return any(all(_holds(text, piece) for piece in pieces) for text in texts)


def _holds(text: str, piece: str) -> bool:
    r"""The piece as it stands, or one part of the text with what the engine fills into the holes beside it.

    >>> _holds("NIXL backend '\0' not found", "NIXL backend '"), _holds("timeout (soft=\0)", " timeout (soft=False")
    (True, False)
    >>> _holds("\0 timeout (soft=\0)", "x timeout (soft=False"), _holds("\0\0", "anything"), _holds("a\0", "abcdefgh")
    (True, False, False)
    """
    if piece in text:
        return True
    parts = text.split(HOLE)
    for number, part in enumerate(parts):
        before, found, after = piece.partition(part) if len(part.strip()) >= SHORTEST else ("", "", "")
        left, right = number > 0 or not before, number < len(parts) - 1 or not after
        if found and left and right and len(before) + len(after) <= MOST_FILLED:
            return True
    return False
