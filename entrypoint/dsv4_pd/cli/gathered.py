"""Options of a command as one frozen value, so that what they are called and hold is checked like everything else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any

Command = Callable[..., Any]


def into(kind: type[Any], name: str) -> Callable[[Command], Command]:
    """Give a command its options as `name`, a `kind` that has a field for each of them.

    Stands below the options in the list of decorators. A field without an option is a TypeError at the call.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def gathered(**given: Any) -> Any:
            own = {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}
            return command(**given, **{name: kind(**own)})

        return gathered

    return decorate
