"""What a check is: one question about the machine, its answer, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from dsv4_pd.errors import ApplianceError, HardwareError
from dsv4_pd.host.facts import Gpu
from dsv4_pd.plan.situation import Situation


class CheckVerdict(enum.StrEnum):
    """How a check went; worst last."""

    SKIP = "skip"  # the question does not arise here
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: what was read, and for a failure the command that fixes it."""

    verdict: CheckVerdict
    read: str
    remedy: str = ""
    subject: str = ""  # the setting that it is about; blank: the check itself

    @property
    def line(self) -> str:
        """What was read, with its subject in front."""
        return f"{self.subject}: {self.read}" if self.subject else self.read


@dataclass(frozen=True, slots=True)
class Check:
    """A check: `fatal` ones are run by `serve`, and a failure of one refuses the start with `error`.

    `run` judges by values: settings, facts, kinds of notices. It never reads a sentence, not even one of ours.
    """

    name: str
    place: int | None  # in its part of the report, by tens; None: in none, a command of its own asks it
    symptom: str  # what the operator sees when this goes wrong unnoticed
    why: str
    source: str
    run: Callable[[Situation], Finding]
    expected: str = ""  # completes "found ..., expected ..." when a failure refuses the start
    fatal: bool = False
    error: type[ApplianceError] = HardwareError
    gpu_only: bool = True


def ok(read: str) -> Finding:
    """Nothing to do."""
    return Finding(CheckVerdict.OK, read)


def warn(read: str, remedy: str) -> Finding:
    """It will run, but worse or less safely than it could."""
    return Finding(CheckVerdict.WARN, read, remedy)


def fail(read: str, remedy: str, subject: str = "") -> Finding:
    """It will not run, or not correctly; `subject`: the setting to change, where it is one."""
    return Finding(CheckVerdict.FAIL, read, remedy, subject)


def skip(read: str) -> Finding:
    """The question does not arise."""
    return Finding(CheckVerdict.SKIP, read)


def gib(size: float) -> str:
    """
    >>> gib(68719476736)
    '64.0 GiB'
    """
    return f"{size / (1 << 30):.1f} GiB"


def numbered(gpus: tuple[Gpu, ...]) -> str:
    """
    >>> numbered(())
    'GPU -'
    """
    return "GPU " + (", ".join(str(gpu.index) for gpu in gpus) or "-")
