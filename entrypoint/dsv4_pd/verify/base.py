"""What a check is: one question to a running appliance; verdict, evidence and, on failure, a next step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from dsv4_pd.client.api import Api
from dsv4_pd.client.ops import Ops


class Outcome(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Result:
    """One check's answer; `evidence` is what was seen, `details` the same for machines."""

    verdict: Outcome
    evidence: str
    next_step: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def passed(evidence: str, **details: Any) -> Result:
    """The check holds."""
    return Result(Outcome.PASS, evidence, details=details)


def failed(evidence: str, next_step: str, **details: Any) -> Result:
    """The check does not hold; `next_step` is what the operator does now."""
    if not next_step:
        raise ValueError("a failure needs a next step")
    return Result(Outcome.FAIL, evidence, next_step, details)


def skipped(reason: str, next_step: str = "") -> Result:
    """The question has no answer here, and why."""
    return Result(Outcome.SKIP, reason, next_step)


@dataclass(frozen=True, slots=True)
class Options:
    """How hard to look."""

    bursts: int = 3
    burst_size: int = 8
    allowed_restarts: int = 0
    container: str | None = None
    single_url: str | None = None
    start_single: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Local:
    """What only a verifier in the same PID namespace can see."""

    root: Path  # of /proc
    run_dir: Path
    state_dir: Path | None


@dataclass(frozen=True, slots=True)
class Subject:
    """The appliance under test."""

    api: Api
    ops: Ops
    options: Options = Options()
    local: Local | None = None

    @property
    def status(self) -> dict[str, Any]:
        """The document of /status, fresh."""
        return self.ops.status()


@dataclass(frozen=True, slots=True)
class AcceptanceCheck:
    """A check and its name in the receipt."""

    name: str
    title: str
    run: Callable[[Subject], Result]
