"""Words of a command line as flags with their values, by what the pinned parsers take. Reads one data file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dsv4_pd.plan.disk.paths import share_dir
from dsv4_pd.settings.redact import MASK
from dsv4_pd.settings.redaction.names import is_secret_variable

HIDDEN = MASK
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
# Spelled otherwise in older engines, with the same meaning.
RENAMED = {
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs": "--cuda-graph-bs-decode",
    "--tp": "--tp-size",
    "--dp": "--dp-size",
}
SYNONYMS = {
    "--model": "--model-path",
    "--tensor-parallel-size": "--tp-size",
    "--nccl-init-addr": "--dist-init-addr",
    "--enable-hicache": "--enable-hierarchical-cache",
    "-tp": "--tp-size",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `name` as the pinned program spells it, `given` as the unit does; `known`: the program has it."""

    name: str
    given: str
    values: tuple[str, ...] = ()
    known: bool = True

    @property
    def secret(self) -> bool:
        """Whether its value is one that must not be shown."""
        return "key" in self.name.split("-") or is_secret_variable(self.name.lstrip("-").replace("-", "_").upper())

    @property
    def shown(self) -> str:
        """As the unit has it, a secret hidden."""
        return " ".join([self.given, *(HIDDEN if self.secret else value for value in self.values)])

    @property
    def value(self) -> str:
        """All values as one text; blank for a switch."""
        return " ".join(self.values)


@cache
def parsers() -> Mapping[str, Any]:
    """program -> option -> number of values (0, 1, "?", "*", "+"), and the engine's own variables."""
    found: Mapping[str, Any] = json.loads((share_dir() / "config" / "parsers.json").read_text(encoding="utf-8"))
    return found


def read(words: Sequence[str], program: str) -> tuple[list[Flag], list[str]]:
    """(flags, words that belong to none). A flag that the program lacks takes what follows up to the next one.

    >>> [flag.shown for flag in read(["--tp", "4", "--api-key=x", "--enable-metrics"], "engine")[0]]
    ['--tp 4', '--api-key ***', '--enable-metrics']
    """
    found: list[Flag] = []
    stray: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or _NUMBER.fullmatch(word) or word == "--":
            stray.append(word)
            continue
        given, sign, value = word.partition("=")
        name, takes = _known(given, program)
        values = [value] if sign else list(_taken(rest, takes))
        found.append(Flag(name, given, tuple(values), takes is not None))
    return found, stray


def _known(given: str, program: str) -> tuple[str, Any]:
    """(the program's own name, how many values it takes; None where it has no such flag)."""
    options: Mapping[str, Any] = parsers()[program]
    name = given if given in options else given.replace("_", "-")
    if program == "engine":
        name = RENAMED.get(name, name) if name not in options else name
        name = SYNONYMS.get(name, name)
    if name not in options:
        longer = sorted({SYNONYMS.get(option, option) for option in options if option.startswith(name)})
        if len(longer) != 1 or not name.startswith("--"):
            return name, None
        name = longer[0]
    return name, options.get(name)


def _taken(rest: list[str], takes: Any) -> Iterator[str]:
    """The values that follow, taken off the rest."""
    most = {0: 0, 1: 1, "?": 1}.get(takes, len(rest))
    if takes == 1 and rest:
        yield rest.pop(0)
        return
    while most and rest and (not rest[0].startswith("-") or _NUMBER.fullmatch(rest[0])):
        most -= 1
        yield rest.pop(0)
