"""A rule: how one kind of value is read, and in the same place the words that say what is accepted.

The rule stands in a setting's type. It is what validates, what an error says was expected, and what the table in
docs/env.md prints, so none of the three can differ from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from dsv4_pd.settings.text import bare, printable


@dataclass(frozen=True, slots=True)
class Rule:
    """`read` makes the value from text, or takes a value that already is one; it raises ValueError for anything else.

    A ValueError without words means "not what `accepts` says"; with words, these are what was expected.
    """

    accepts: str
    read: Callable[[Any], Any]
    shell_file: bool = True  # whether quotes that `docker run --env-file` keeps are taken off

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.apply, handler(source))

    def apply(self, value: Any) -> Any:
        """The value in the form that every consumer gets.

        Raises:
            ValueError: with what is accepted.
        """
        text = bare(value) if self.shell_file else value
        try:
            if isinstance(text, str):
                printable(text)
            return self.read(text)
        except ValueError as error:
            raise ValueError(str(error) or self.accepts) from error
