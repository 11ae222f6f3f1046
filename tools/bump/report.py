"""Findings as a page."""

from __future__ import annotations

from collections.abc import Sequence

from bump.checks import Difference, Fit

_NOT_SEEN = """\
Sources say what exists, not what it does. After this page: `make test-engine test-kernels test-pair` with the new
lock, then the GPU rings. NIXL, Triton and torch move with the lock as well; the CPU plugin checks NIXL's names when
it starts, and `docker/check/engine.py` checks the rest in the image build."""


def render(version: str, pinned: str, findings: Sequence[Difference]) -> str:
    """Markdown: totals by area, then what breaks and what to read again."""
    areas = list(dict.fromkeys(finding.area for finding in findings))
    rows = [_row(area, [finding for finding in findings if finding.area == area]) for area in areas]
    parts = [
        f"# SGLang {version} against what is written for {pinned}",
        "Written by `make bump-check` (docs/bump-engine.md).",
        "\n".join(["| area | looked for | gone | changed | not the engine's |", "|---|--:|--:|--:|--:|", *rows]),
        _section("What would break", findings, Fit.GONE, "Nothing that was looked for is gone."),
        _section("What changed and must be read again", findings, Fit.CHANGED, "Nothing."),
        _section("Not the engine's own", findings, Fit.OUTSIDE, "Nothing."),
        f"## What this page can't see\n\n{_NOT_SEEN}",
    ]
    return "\n\n".join(parts) + "\n"


def _row(area: str, findings: Sequence[Difference]) -> str:
    counts = [sum(f.verdict is verdict for f in findings) for verdict in (Fit.GONE, Fit.CHANGED, Fit.OUTSIDE)]
    return f"| {area} | {len(findings)} | {' | '.join(map(str, counts))} |"


def _section(title: str, findings: Sequence[Difference], verdict: Fit, otherwise: str) -> str:
    chosen = [finding for finding in findings if finding.verdict is verdict]
    lines = [f"- {f.area}: `{f.subject}`{f': {f.note}' if f.note else ''}" for f in chosen]
    return f"## {title}\n\n" + ("\n".join(lines) or otherwise)
