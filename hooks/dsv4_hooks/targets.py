"""Check what a plugin is about to change: it stands on names, parameters and code that another version may not have.

Every refusal is EngineChanged with the target, what was found and what was expected.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any

from dsv4_hooks.engine import ENGINE_VERSION

REMEDY = f"the plugins are written for sglang {ENGINE_VERSION}, see docs/bump-engine.md"


class EngineChanged(Exception):
    """The engine that is installed is not the one that the plugin was written for."""


def require_version(found: str) -> None:
    """For plugins whose targets' bodies count as much as their parameters."""
    if found != ENGINE_VERSION:
        raise EngineChanged(f"sglang {found}, expected {ENGINE_VERSION}: {REMEDY}")


def resolve(target: str) -> Any:
    """The object of a dotted path; imports its module."""
    try:
        return pkgutil.resolve_name(target)
    except (ImportError, AttributeError) as error:
        raise EngineChanged(f"{target} does not exist ({error}): {REMEDY}") from error


def require_parameters(target: str, function: Callable[..., Any], expected: tuple[str, ...]) -> inspect.Signature:
    """The parameters are exactly these, in this order; returns the signature."""
    signature = inspect.signature(function)
    found = tuple(signature.parameters)
    if found != expected:
        raise EngineChanged(f"{target} takes {found!r}, expected {expected!r}: {REMEDY}")
    return signature


def require_leading(target: str, function: Callable[..., Any], expected: tuple[str, ...]) -> None:
    """The first parameters are exactly these; what follows them is optional."""
    parameters = list(inspect.signature(function).parameters.values())
    found = tuple(parameter.name for parameter in parameters[: len(expected)])
    if found != expected:
        raise EngineChanged(f"{target} takes {found!r}, expected {expected!r}: {REMEDY}")
    added = [
        p.name
        for p in parameters[len(expected) :]
        if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
    ]
    if added:
        raise EngineChanged(f"{target} also requires {added!r}, which the plugin does not pass: {REMEDY}")


def require_attribute(target: str, owner: object, name: str) -> Any:
    """The attribute, which must be there and be something."""
    found = getattr(owner, name, None)
    if found is None:
        raise EngineChanged(f"{target} has no {name!r}: {REMEDY}")
    return found


def require_use(target: str, function: Any, name: str) -> None:
    """The function's own code reads this name; otherwise changing what the name holds changes nothing."""
    if name not in function.__code__.co_names:
        raise EngineChanged(f"{target} no longer reads {name!r}: {REMEDY}")


def require_fields(target: str, expected: Iterable[str]) -> None:
    """The dataclass at this path has every field."""
    fields = getattr(resolve(target), "__dataclass_fields__", {})
    missing = sorted(set(expected) - set(fields))
    if missing:
        raise EngineChanged(f"{target} has no {missing!r}: {REMEDY}")
