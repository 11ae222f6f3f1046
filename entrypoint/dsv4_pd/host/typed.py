"""Values of JSON answers by the type that is expected; anything else is unknown. Pure.

NVML's answers cross a pipe and captures come from other machines: a driver's own idea of a value must cost that value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole(value: Any) -> int | None:
    """
    >>> whole(3), whole(True), whole("3"), whole(3.0)
    (3, None, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def flag(value: Any) -> bool | None:
    """
    >>> flag(False), flag(0)
    (False, None)
    """
    return value if isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """
    >>> text("a"), text(["a"])
    ('a', None)
    """
    return value if isinstance(value, str) else None


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; nothing for what is no list.

    >>> rows([{"a": 1}, 7]), rows(-1)
    ([{'a': 1}], [])
    """
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def needed(found: Any, what: str) -> Any:
    """A value that nothing can do without.

    Raises:
        ValueError: it is unknown.
    """
    if found is None:
        raise ValueError(f"no usable {what}")
    return found
