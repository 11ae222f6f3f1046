"""Findings as text for a person, as JSON for a program, and as the troubleshooting page."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dsv4_pd.doctor.base import Check, CheckVerdict, Finding

_Found = Sequence[tuple[Check, Finding]]
_WIDTH = 110


def as_text(found: _Found, *, everything: bool = True) -> str:
    """One line a check; below a failed one why it matters, what fixes it, and the source."""
    width = max(len(check.name) for check, _ in found)
    lines: list[str] = []
    for check, finding in found:
        if finding.verdict is CheckVerdict.SKIP or (finding.verdict is CheckVerdict.OK and not everything):
            continue
        lines.append(f"{finding.verdict.value:4}  {check.name:{width}}  {finding.line}")
        if finding.verdict is not CheckVerdict.OK:
            lines += _explained(check, finding)
    if reasons := Counter(finding.read for _, finding in found if finding.verdict is CheckVerdict.SKIP):
        lines += [f"skip  {count} checks: {reason}" for reason, count in reasons.items()]
    return "\n".join([*lines, "", summary(found)])


def _explained(check: Check, finding: Finding) -> list[str]:
    parts = (("why", check.why), ("do", finding.remedy), ("see", check.source))
    return [
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"        {name:4}",
            subsequent_indent=" " * 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, text in parts
    ]


def summary(found: _Found) -> str:
    """
    >>> summary(())
    '0 ok, 0 warn, 0 fail'
    """
    counts = Counter(finding.verdict for _, finding in found)
    shown = [CheckVerdict.OK, CheckVerdict.WARN, CheckVerdict.FAIL]
    if counts[CheckVerdict.SKIP]:
        shown.append(CheckVerdict.SKIP)
    return ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in shown)


def as_values(found: _Found) -> list[dict[str, Any]]:
    """Plain values for JSON."""
    return [
        {
            "check": check.name,
            "verdict": finding.verdict.value,
            "subject": finding.subject or None,
            "read": finding.line,
            "why": check.why,
            "remedy": finding.remedy or None,
            "source": check.source,
            "fatal": check.fatal,
        }
        for check, finding in found
    ]
