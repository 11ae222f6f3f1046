"""Licences of what the images ship: docker/licences.toml held against the locks and against what is installed. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from license_expression import ExpressionError, get_spdx_licensing

FILE = "docker/licences.toml"
# The locks that images are made of; those of builds, tests and development are in none.
SHIPPED = ("engine", "router", "smg", "appliance", "engine-cpu", "engine-cpu-nodeps", "engine-cpu-torch")
_SPDX = get_spdx_licensing()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why packages under a licence that is not generally allowed are shipped. `ship`: "yes" or "check"."""

    licence: str
    packages: tuple[str, ...]
    ship: str
    why: str


@dataclass(frozen=True, slots=True)
class Licences:
    """allow: SPDX ids, or `id WITH exception` · shipped: distribution -> SPDX expression."""

    allow: frozenset[str]
    reasons: tuple[Reason, ...]
    shipped: Mapping[str, str]


def parse(text: str) -> Licences:
    """From the file's text."""
    told: dict[str, Any] = tomllib.loads(text)
    reasons = tuple(Reason(one["licence"], tuple(one["packages"]), one["ship"], one["why"]) for one in told["reason"])
    return Licences(frozenset(told["allow"]), reasons, told["shipped"])


def locked(text: str) -> set[str]:
    """Names in a lock.

    >>> sorted(locked("# of Python\\nPy_YAML[x]==6.0 ; a\\n    --hash=sha256:ab\\nnixl-cu13==1 \\\\\\n"))
    ['nixl-cu13', 'py-yaml']
    """
    return {normal(name) for name in re.findall(r"^([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==", text, re.MULTILINE)}


def normal(name: str) -> str:
    """As indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def problems(licences: Licences, locks: Iterable[str]) -> Iterator[str]:
    """What stands against shipping these locks; each with what to do."""
    wanted = set().union(*map(locked, locks))
    for name in sorted(wanted - set(licences.shipped)):
        yield f"{FILE}: {name}: found no licence, expected one; read what it declares and add it to [shipped]"
    for name in sorted(set(licences.shipped) - wanted):
        yield f"{FILE}: {name}: found it in no lock of an image, expected that; remove it"
    for name in sorted(wanted & set(licences.shipped)):
        yield from _of(licences, name, licences.shipped[name])
    for reason in licences.reasons:
        for name in reason.packages:
            if not _holds(licences.shipped.get(name, ""), reason.licence):
                yield f"{FILE}: {name}: found a reason for {reason.licence}, which it does not have; remove it"
        if reason.ship not in ("yes", "check"):
            yield f"{FILE}: {reason.packages[0]}: found ship = {reason.ship!r}, expected 'yes' or 'check'"


def _of(licences: Licences, name: str, expression: str) -> Iterator[str]:
    excused = {reason.licence for reason in licences.reasons if name in reason.packages}
    try:
        if not acceptable(expression, licences.allow | excused):
            yield (
                f"{FILE}: {name}: found {expression}, expected a licence in `allow`; "
                "leave it out of the image, or add a [[reason]] that holds"
            )
    except ExpressionError as error:
        yield f"{FILE}: {name}: found {expression!r}, expected an SPDX expression ({error})"


def acceptable(expression: str, allowed: frozenset[str]) -> bool:
    """Whether one side of each OR, and every side of each AND, is allowed.

    >>> acceptable("MIT AND (GPL-3.0-only OR Apache-2.0)", frozenset({"MIT", "Apache-2.0"}))
    True
    >>> acceptable("MIT AND GPL-3.0-only", frozenset({"MIT", "Apache-2.0"}))
    False

    Raises:
        ExpressionError: it is no SPDX expression.
    """
    return _accepts(_SPDX.parse(expression, validate=False), allowed)


def _accepts(node: Any, allowed: frozenset[str]) -> bool:
    match type(node).__name__:
        case "AND":
            return all(_accepts(one, allowed) for one in node.args)
        case "OR":
            return any(_accepts(one, allowed) for one in node.args)
        case _:
            return node is not None and node.render("{symbol.key}") in allowed


def _holds(expression: str, licence: str) -> bool:
    return licence in re.split(r" AND | OR |[()]", expression)


def lies(licences: Licences, declared: Mapping[str, str]) -> Iterator[str]:
    """Where an installed distribution declares another SPDX expression than the list has. `declared`: name -> it."""
    for name, expression in sorted(declared.items()):
        listed = licences.shipped.get(name)
        if listed is not None and _SPDX.parse(listed) != _SPDX.parse(expression):
            yield f"{FILE}: {name}: found {listed}, expected {expression}, which it declares; correct [shipped]"
