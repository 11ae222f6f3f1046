"""The operator's own variables of the engine: what it would pass over without a word, or fail on after the load.

SGLang 0.5.23 takes what it can't parse for unset, with a warning among a thousand lines (EnvField.get of environ.py); a
name that it does not know it never looks at. config/parsers.json holds the names and their kinds.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dsv4_pd.plan.flags.command_line import parsers
from dsv4_pd.settings.schema import Settings

PREFIXES = ("SGLANG_", "SGL_")
_BACKEND = "SGLANG_DISAGGREGATION_NIXL_BACKEND"
_BOOLEANS = frozenset(("true", "1", "yes", "y", "false", "0", "no", "n"))
# A setting of ours -> the variables that say the same to the engine. An operator's own variable wins there.
_SAME: Mapping[str, tuple[str, ...]] = {
    "link_timeout": ("SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", "SGLANG_DISAGGREGATION_WAITING_TIMEOUT"),
    "cache_dir": ("SGLANG_CACHE_DIR", "SGLANG_JIT_CACHE_DIR"),
    "pcie_allreduce": ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",),
}


@dataclass(frozen=True, slots=True)
class Remark:
    """What is wrong with one variable."""

    name: str
    found: str
    expected: str
    remedy: str
    refused: bool = True  # a name that the engine does not know harms nobody but whoever relies on it


def remarks(
    settings: Settings, own: frozenset[str], environ: Mapping[str, str], plugins: str = ""
) -> tuple[Remark, ...]:
    """Everything that is wrong; `own`: the settings that the operator gave; `plugins`: the profile's SGLANG_PLUGINS."""
    given = {name: value for name, value in environ.items() if name.startswith(PREFIXES) and value}
    return tuple(
        remark
        for name, value in sorted(given.items())
        for remark in (
            _unknown(name),
            _unparsed(name, value),
            _link(name, value),
            _left_out(name, value, plugins),
            _twice(name, settings, own),
        )
        if remark
    )


def _unknown(name: str) -> Remark | None:
    known = parsers()["engine_variables"]
    if name in known:
        return None
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    remedy = f"write {close[0]}" if close else f"unset {name}"
    return Remark(name, "set", "a variable that SGLang 0.5.23 reads", remedy, refused=False)


def _unparsed(name: str, value: str) -> Remark | None:
    """By the engine's own rules of each kind.

    >>> _unparsed("SGLANG_DISAGGREGATION_WAITING_TIMEOUT", "10m").expected
    'a whole number: the engine would take it for unset'
    """
    kind = parsers()["engine_variable_kinds"].get(name)
    if kind is None or _parses(kind, value):
        return None
    words = {"int": "a whole number", "float": "a number", "bool": "1 or 0"}
    return Remark(name, repr(value), f"{words[kind]}: the engine would take it for unset", f"correct or unset {name}")


def _parses(kind: str, value: str) -> bool:
    rules: Mapping[str, Callable[[str], object]] = {"int": int, "float": float}
    if kind == "bool":
        return value.lower() in _BOOLEANS
    try:
        rules[kind](value)
    except ValueError:
        return False
    return True


def _link(name: str, value: str) -> Remark | None:
    """What carries the KV cache: the plan's own checks, the link test and the metrics all speak of UCX."""
    if name == _BACKEND and value != "UCX":
        expected = "UCX, in capitals: no other of NIXL's is known to carry KV here"
        return Remark(name, repr(value), expected, f"unset {name}")
    if name == f"{_BACKEND}_PARAMS" and not _texts(value):
        expected = "a JSON object of texts, or the servers end after the load"
        return Remark(name, repr(value), expected, f"correct or unset {name}")
    return None


def _texts(value: str) -> bool:
    try:
        found = json.loads(value)
    except ValueError:
        return False
    return isinstance(found, dict) and all(isinstance(item, str) for item in found.values())


def _left_out(name: str, value: str, plugins: str) -> Remark | None:
    """The list of plugins replaces the profile's, and nothing is READY without those."""
    ours = [plugin for plugin in plugins.split(",") if plugin]
    if name != "SGLANG_PLUGINS" or set(ours) <= {plugin.strip() for plugin in value.split(",")}:
        return None
    return Remark(name, repr(value), f"{', '.join(ours)} among them, or nothing is READY", f"unset {name}, or add them")


def _twice(name: str, settings: Settings, own: frozenset[str]) -> Remark | None:
    """A setting that would not reach the engine, because its own variable says something beside it."""
    for field in _fields(name):
        if field in own:
            ours = settings.variable(field)
            expected = "one of the two: the engine would read only the first"
            return Remark(name, f"set, and {ours} too", expected, f"unset {name}")
    return None


def _fields(name: str) -> Iterator[str]:
    return (field for field, names in _SAME.items() if name in names)
