"""Run the checks and write the receipt."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.verify.base import AcceptanceCheck, Outcome, Result, Subject, failed


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A check, its result, and the seconds it took."""

    check: AcceptanceCheck
    result: Result
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For the receipt."""
        result = self.result
        return {
            "check": self.check.name,
            "verdict": result.verdict.value,
            "seconds": round(self.seconds, 3),
            "evidence": result.evidence,
            **({"next_step": result.next_step} if result.next_step else {}),
            **({"details": dict(result.details)} if result.details else {}),
        }


def run(checks: Sequence[AcceptanceCheck], subject: Subject, tell: Callable[[CheckRun], None]) -> tuple[CheckRun, ...]:
    """Every check, one after the other: some measure what others would disturb."""
    answers = []
    for check in checks:
        begun = time.monotonic()
        try:
            result = check.run(subject)
        except Exception as error:  # a check that can't even ask has not passed, and the others still count
            result = failed(
                f"the check could not be run: {type(error).__name__}: {error}",
                "check whether the appliance still answers: dsv4-pd status",
            )
        answers.append(CheckRun(check, result, time.monotonic() - begun))
        tell(answers[-1])
    return tuple(answers)


def verdict(launches: Sequence[Sequence[CheckRun]]) -> Outcome:
    """FAIL when any check failed in any launch; SKIP when nothing was checked at all."""
    results = [answer.result.verdict for answers in launches for answer in answers]
    if Outcome.FAIL in results:
        return Outcome.FAIL
    return Outcome.PASS if Outcome.PASS in results else Outcome.SKIP


def receipt(launches: Sequence[Sequence[CheckRun]], status: dict[str, Any], url: str, started: float) -> dict[str, Any]:
    """What was certified, on what; see docs/verify.md for the fields."""
    return {
        "receipt": 1,
        "tool": f"dsv4-pd {__version__}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 1),
        "url": url,
        "verdict": verdict(launches).value,
        "appliance": {
            "mode": status.get("mode"),
            "profile": status.get("profile"),
            "model": status.get("model"),
            **(status.get("about") or {}),
        },
        "launches": [[answer.as_dict() for answer in answers] for answers in launches],
    }
