"""Who takes a setting, and what it accepts: the table in docs/env.md. Both are the field's own word and type."""

from __future__ import annotations

import typing
from typing import Any, Literal

from dsv4_pd.settings.declare import declared
from dsv4_pd.settings.fields import KEY_ACCEPTS, WORD
from dsv4_pd.settings.rule import Rule
from dsv4_pd.settings.schema import SECRETS, Settings


def consumer(field: str) -> str:
    """Who takes a setting, and under which name.

    >>> consumer("ops_port")
    "guard's listening socket; status, verify, bench"
    """
    return declared(Settings.model_fields[field]).consumer


def accepts(field: str) -> str:
    """What a setting's own rule accepts, in its words.

    >>> accepts("port"), accepts("numa")
    ('a port from 1 to 65535, in digits', 'auto, strict or off, in any case')
    """
    if field in SECRETS:
        return KEY_ACCEPTS
    info = Settings.model_fields[field]
    rule = _rule_of(info.metadata) or _rule_of(_nested(info.annotation))
    if rule is None:
        raise LookupError(f"{field} has no rule")
    choices = [word for part in _parts(info.annotation) for word in typing.get_args(part)]
    if rule is WORD:
        return f"{', '.join(choices[:-1])} or {choices[-1]}, in any case" if choices else "one word, in any case"
    return rule.accepts


def _rule_of(metadata: Any) -> Rule | None:
    return next((item for item in metadata if isinstance(item, Rule)), None)


def _nested(annotation: Any) -> list[Any]:
    """Metadata of the types that a union is made of: `Annotated[...] | None` keeps its own."""
    return [item for part in typing.get_args(annotation) for item in getattr(part, "__metadata__", ())]


def _parts(annotation: Any) -> list[Any]:
    return [part for part in (annotation, *typing.get_args(annotation)) if typing.get_origin(part) is Literal]
