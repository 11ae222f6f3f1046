"""Findings as text for a person, as JSON for a program, and as the troubleshooting page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from dsv4_pd.doctor.base import Check, Finding, Verdict
from dsv4_pd.doctor.catalogue import NOT_ASKED

_Found = Sequence[tuple[Check, Finding]]
_WIDTH = 110


def as_text(found: _Found, *, everything: bool = True) -> str:
    """One line a check; below a bad one why it matters, what mends it, and the source."""
    width = max(len(check.name) for check, _ in found)
    lines: list[str] = []
    for check, finding in found:
        if finding.read == NOT_ASKED or (finding.verdict is Verdict.OK and not everything):
            continue
        lines.append(f"{finding.verdict.value:4}  {check.name:{width}}  {finding.read}")
        if finding.verdict is not Verdict.OK:
            lines += _explained(check, finding)
    left_out = sum(finding.read == NOT_ASKED for _, finding in found)
    if left_out:
        lines.append(f"      {left_out} questions about GPUs and their host are not asked: this profile uses none")
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
    counts = {verdict: sum(finding.verdict is verdict for _, finding in found) for verdict in Verdict}
    return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())


def as_values(found: _Found) -> list[dict[str, Any]]:
    """Plain values for JSON."""
    return [
        {
            "check": check.name,
            "verdict": finding.verdict.value,
            "read": finding.read,
            "why": check.why,
            "remedy": finding.remedy or None,
            "source": check.source,
            "fatal": check.fatal,
        }
        for check, finding in found
    ]
