"""Check a patched target before it is patched: this plugin stands on names that SGLang and NIXL may change."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class TargetChanged(Exception):
    """The engine that is installed is not the one that this plugin was written for."""


def require_parameters(target: str, function: Callable[..., Any], expected: tuple[str, ...]) -> None:
    """The leading parameters must be exactly these; what follows them must be optional."""
    parameters = list(inspect.signature(function).parameters.values())
    found = tuple(parameter.name for parameter in parameters[: len(expected)])
    if found != expected:
        raise TargetChanged(f"{target} takes {found!r}, expected {expected!r}")
    added = [
        p.name
        for p in parameters[len(expected) :]
        if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
    ]
    if added:
        raise TargetChanged(f"{target} also requires {added!r}, which this plugin does not pass")


def require_attribute(target: str, owner: object, name: str) -> Any:
    found = getattr(owner, name, None)
    if found is None:
        raise TargetChanged(f"{target} has no {name!r}")
    return found
