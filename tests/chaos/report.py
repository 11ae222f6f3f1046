"""`python -m chaos.report [--write]`, from tests/: what the committed slices show, by router and seed.

Every line counts, those of repeated slices too; nothing is taken from elsewhere. `--write` puts the table into
docs/health.md, and `make check` holds that it is there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from chaos import records
from chaos.records import Line

PAGE = Path(__file__).resolve().parents[2] / "docs/health.md"
BEGIN, END = "<!-- BEGIN chaos: written by `make chaos-report` -->\n", "<!-- END chaos -->"
TARGET = 60  # faults of each sequence
MAY_FAIL = 0.001


@dataclass(frozen=True, slots=True)
class Totals:
    """Of one sequence."""

    router: str
    seed: int
    faults: int  # different ones of the sequence
    slices: int
    counted: int  # well-formed requests while READY or DEGRADED
    failed: int  # of them
    bad: dict[str, int]  # what must not be, where it was

    @property
    def verdict(self) -> str:
        """What a reader wants to know first."""
        found = {name: count for name, count in self.bad.items() if count}
        if self.counted and self.failed / self.counted > MAY_FAIL:
            found["too many failed"] = self.failed
        if found:
            return "**no**: " + ", ".join(f"{count} {name}" for name, count in found.items())
        return "yes" if self.faults >= TARGET else f"so far ({self.faults} of {TARGET})"


def totals(lines: Sequence[Line]) -> Totals:
    """Of the lines of one sequence."""
    done = [line for line in lines if line["line"] == "fault"]
    ends = [line for line in lines if line["line"] == "end"]
    bad = Counter({
        "never READY again": sum(not line["back"] for line in done),
        "broken": sum(bool(line["broken"]) for line in done),
        "hung": sum(line["hung"] for line in lines) + sum(line["unfinished"] for line in ends),
        "wrong": sum(len(line["wrong"]) for line in lines),
        "left behind": sum(len(line["leftovers"]) for line in ends),
        "bad exit codes": sum(line["exit_code"] != 0 for line in ends),
        "slices without an end": len({line["slice"] for line in lines}) - len(ends),
    })  # fmt: skip
    answered, failed = (sum(line[name].get("ready", 0) for line in lines) for name in ("answered", "failed"))
    return Totals(lines[0]["router"], lines[0]["seed"], len({line["number"] for line in done}),
                  len({line["slice"] for line in lines}), answered + failed, failed, dict(bad))  # fmt: skip


def by_sequence(lines: Iterable[Line]) -> list[list[Line]]:
    """The lines of each router and seed."""

    def which(line: Line) -> tuple[str, int]:
        return line["router"], line["seed"]

    return [list(group) for _, group in groupby(sorted(lines, key=which), which)]


def slowest(lines: Sequence[Line]) -> str:
    """Where the time went: a line for people who want it cheaper."""
    done = [line for line in lines if line["line"] == "fault"]
    parts = {name: sum(line[name] for line in done) for name in ("act_s", "back_s", "count_s")}
    started = sum(line["start_s"] for line in lines if line["line"] == "end")
    return (f"{len(done)} faults: {parts['act_s']:.0f} s doing them, {parts['back_s']:.0f} s until READY was back, "
            f"{parts['count_s']:.0f} s counting requests, {started:.0f} s starting the pair")  # fmt: skip


def table(lines: Sequence[Line]) -> str:
    """For docs/health.md."""
    if not lines:
        return "No slice has been recorded yet.\n"
    head = ["router", "seed", "faults", "slices", "requests while serving", "failed", "held"]
    rows = [(one.router, one.seed, one.faults, one.slices, one.counted, one.failed, one.verdict)
            for one in map(totals, by_sequence(lines))]  # fmt: skip
    text = [row_of(head), row_of(["---"] * len(head)).replace(" ", ""), *map(row_of, rows)]
    kinds = Counter(line["fault"] for line in lines if line["line"] == "fault")
    tried = f"\n{sum(kinds.values())} faults of {len(kinds)} kinds; versions tried: {', '.join(versions(lines))}.\n"
    return "\n".join(text) + "\n" + tried


def row_of(cells: Iterable[object]) -> str:
    """One line of the table."""
    return f"| {' | '.join(map(str, cells))} |"


def versions(lines: Iterable[Line]) -> list[str]:
    """The commits, in the order in which they were tried."""
    return list(dict.fromkeys(line["commit"] for line in sorted(lines, key=lambda line: str(line["slice"]))))


def fill(page: str, lines: Sequence[Line]) -> str:
    """The page with the table between its marks.

    Raises:
        ValueError: the page has no marks.
    """
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"docs/health.md: expected {BEGIN.strip()} and {END}")
    return before + mark + table(lines) + end + after


def main() -> int:
    """Print the table, and where the time went."""
    lines = list(records.read())
    print(table(lines))
    for group in by_sequence(lines):
        print(f"{group[0]['router']}, seed {group[0]['seed']}: {slowest(group)}")
    if "--write" in sys.argv:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
