"""How a setting is declared: its default, what it means and who takes it, all in its field.

What is printed of a setting and what is decided by it is read from here; there is no second list of names.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

_KEY = "declared"


class Section(enum.StrEnum):
    """The headings of docs/env.md and .env.example."""

    WHAT = "What to serve"
    API = "API"
    GPUS = "GPUs"
    MEMORY = "Memory"
    KERNELS = "Kernels"
    LIFECYCLE = "Lifecycle"
    EXTRA_ARGUMENTS = "Extra arguments"
    LOGS = "Logs"
    INTERNALS = "Internals: only a second appliance on the same host, without containers, needs other values"


@dataclass(frozen=True, slots=True)
class Declared:
    """What a setting says of itself beside its type, default and description."""

    consumer: str  # who takes it, and under which name, in Markdown
    section: Section | None  # the heading that begins with it; None: it stands under the one before
    hashed: bool  # False: a place or a form; two configurations that differ only in it serve the same


def setting(
    default: Any = PydanticUndefined,
    *,
    description: str,
    consumer: str,
    section: Section | None = None,
    hashed: bool = True,
    default_factory: Callable[[], Any] | None = None,
) -> Any:
    """One field of `Settings`; a default or a factory of one.

    `consumer` names programs: `engine` is SGLang's server, `router` whichever DSV4_ROUTER names, `guard`, `front` and
    `serve` are ours.
    """
    told = {_KEY: Declared(consumer, section, hashed)}
    more: dict[str, Any] = {"description": description, "json_schema_extra": told}
    return Field(default_factory=default_factory, **more) if default_factory else Field(default, **more)


def declared(info: FieldInfo) -> Declared:
    """What a field was declared with.

    Raises:
        LookupError: it was not made by `setting`.
    """
    extra = info.json_schema_extra
    if isinstance(extra, dict) and isinstance(found := extra.get(_KEY), Declared):
        return found
    raise LookupError(f"found a field of {info.annotation} without a consumer, expected one that setting() made")
