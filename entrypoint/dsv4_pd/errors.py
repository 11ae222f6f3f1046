"""Every error that ends the appliance, and the exit code it ends with.

ApplianceError          1   a component failed; a restart may help
├── SettingsError       2   the settings are wrong; a restart can't help
├── HardwareError      70   no GPU, the wrong GPU, or a GPU that was lost
└── TemporaryError     75   a port or a GPU is busy; try again later
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, in the operator's words; prints as one line.

    >>> print(Problem("DSV4_PORT", "'80x'", "a port from 1 to 65535", "set DSV4_PORT=8000"))
    DSV4_PORT: found '80x', expected a port from 1 to 65535; set DSV4_PORT=8000
    """

    subject: str
    found: str
    expected: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: found {self.found}, expected {self.expected}; {self.remedy}"


class ApplianceError(Exception):
    """A failure with an exit code and the problems that explain it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems: tuple[Problem, ...] = () if isinstance(problems, str) else tuple(problems)
        text = problems if isinstance(problems, str) else "\n".join(str(p) for p in problems)
        super().__init__(text)


class SettingsError(ApplianceError):
    """The settings are wrong: nothing was started."""

    exit_code = 2


class HardwareError(ApplianceError):
    """The hardware is missing, unfit or lost: restarting the container can't fix it."""

    exit_code = 70


class TemporaryError(ApplianceError):
    """Something is busy now: the same start may succeed later."""

    exit_code = 75
