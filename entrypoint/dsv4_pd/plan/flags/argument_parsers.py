"""What the pinned programs' own argument parsers refuse, told before they are started.

Engine and routers read their command lines with argparse. config/parsers.json holds each option with its number of
values, their type and choices, as far as these are data; a parser with the same options refuses the same words.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from dsv4_pd.plan.flags.command_line import parsers
from dsv4_pd.settings.redact import Redactor


def _json(text: str) -> Any:
    return json.loads(text)


_TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "json": _json}


class _Refused(Exception):
    """argparse's own words."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


@cache
def _parser(program: str) -> _Parser:
    kinds: Mapping[str, Any] = parsers()["kinds"][program]
    built = _Parser(prog=program, add_help=False)
    for number, (option, takes) in enumerate(parsers()[program].items()):
        if takes == 0:
            built.add_argument(option, dest=f"o{number}", action="store_true")
            continue
        kind = kinds.get(option, {})
        built.add_argument(
            option,
            dest=f"o{number}",
            nargs=None if takes == 1 else takes,
            type=_TYPES[kind["type"]] if "type" in kind else str,
            choices=kind.get("choices"),
        )
    return built


def refusal(words: Sequence[str], program: str) -> str | None:
    """Why a program's parser would end on these words, or None. Values of secrets' flags are not repeated.

    >>> refusal(["--log-requests", "--stream-interval", "x"], "engine")
    "argument --stream-interval: invalid int value: 'x'"
    >>> refusal(["--stream-intervall=2"], "engine")
    '--stream-intervall is no flag of it (did you mean --stream-interval?)'
    """
    try:
        _, stray = _parser(program).parse_known_args(list(words))
    except _Refused as error:
        return str(error)
    if not stray:
        return None
    flags = [word.split("=", 1)[0] for word in stray if word.startswith("-") and word != "--"]
    if flags:
        return f"{flags[0]} is no flag of it{_meant(flags[0], program)}"
    shown = " ".join(word for word in Redactor().data(list(words)) if word in stray)
    return f"{shown!r} belongs to no flag"


def spelled_out(text: str, program: str) -> str:
    """Extra arguments with every flag in full, as whoever looks for one among them expects it.

    >>> spelled_out("--max-total 8 --log-requests", "engine"), spelled_out("--log-requests  'a b'", "engine")
    ('--max-total-tokens 8 --log-requests', "--log-requests  'a b'")
    """
    words = shlex.split(text)
    full = [_full(word, parsers()[program]) for word in words]
    return text if full == words else shlex.join(full)


def _full(word: str, options: Mapping[str, Any]) -> str:
    flag, sign, value = word.partition("=")
    longer = [option for option in options if option.startswith(flag)] if flag.startswith("--") else []
    return f"{longer[0]}{sign}{value}" if flag not in options and len(longer) == 1 else word


def _meant(flag: str, program: str) -> str:
    close = difflib.get_close_matches(flag.replace("_", "-"), parsers()[program], n=1, cutoff=0.8)
    return f" (did you mean {close[0]}?)" if close else ""
