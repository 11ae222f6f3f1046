"""Look a cache over before a start: whole entries get a digest, what can't be used is moved aside."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from dsv4_pd.run.cache import aside, digests, locks, triton_index
from dsv4_pd.run.cache.digests import Digest, Origin
from dsv4_pd.run.cache.judge import EntryState, Judgement, judge
from dsv4_pd.run.cache.systems import Entry, entries, label

_LINES = 8  # a volume that was damaged as a whole is told of once, not a hundred times


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved aside. kernel: blank for a lock."""

    relative: str
    kernel: str
    reason: str
    to: str

    def line(self) -> str:
        """For the log: one line each."""
        what = f"{self.relative} ({self.kernel})" if self.kernel else self.relative
        then = "; it is compiled again" if self.kernel else ""
        return f"kernel cache: {what}: {self.reason}; moved to {self.to}{then}"


@dataclass(slots=True)
class Report:
    """Entries by what was found."""

    whole: int = 0
    sealed: int = 0  # of the whole ones: those that got their digest now
    unfinished: int = 0
    moved: list[Moved] = field(default_factory=list)


def check(cache: Path, now: float, *, alone: bool, origin: Origin = "here") -> Report:
    """now: seconds since the epoch. alone: no other appliance writes into the folder.

    Raises:
        OSError: what is damaged can't be moved, or a digest can't be written.
    """
    report = Report()
    for relative, reason in list(locks.stale(cache, now, alone=alone)):
        report.moved.append(_move(cache, relative, "", reason))
    for entry in list(entries(cache)):
        _entry(entry, now, report, alone=alone, origin=origin)
    aside.prune(cache)
    return report


def said(report: Report) -> list[str]:
    """A line for each thing that was moved, as far as a reader wants them."""
    lines = [moved.line() for moved in report.moved[:_LINES]]
    rest = len(report.moved) - len(lines)
    return [*lines, f"kernel cache: {rest} more entries moved aside"] if rest else lines


def _entry(entry: Entry, now: float, report: Report, *, alone: bool, origin: Origin) -> None:
    known = digests.read(entry.cache, entry.relative)
    verdict = judge(entry, known, now, alone=alone)
    if verdict.outcome is EntryState.DAMAGED:
        report.moved.append(_move(entry.cache, entry.relative, _label(entry), verdict.reason))
    elif verdict.outcome is EntryState.WHOLE:
        report.whole += 1
        if entry.system.name == "triton":
            triton_index.rehome(entry.path, entry.path)
        if known is None or verdict.files != known.files:
            report.sealed += 1
            seal(entry, verdict, known, origin)
    else:
        report.unfinished += verdict.outcome is EntryState.UNFINISHED


def seal(entry: Entry, verdict: Judgement, known: Digest | None, origin: Origin, seconds: float | None = None) -> None:
    """Write down what the entry is now; where it came from stays what it was."""
    if known:
        origin, seconds = known.origin, known.seconds
    digest = Digest(entry.relative, entry.system.name, label(entry), origin, dict(verdict.files), seconds)
    digests.write(entry.cache, digest)


def _label(entry: Entry) -> str:
    try:
        return label(entry)
    except OSError:
        return entry.system.name


def _move(cache: Path, relative: str, kernel: str, reason: str) -> Moved:
    to = aside.put(cache, relative)
    digests.forget(cache, relative)
    return Moved(relative, kernel, reason, str(to.relative_to(cache)))


def main(arguments: list[str]) -> int:
    """`python -m dsv4_pd.run.cache.check FOLDER`, in the image build: digests of what the image brings."""
    report = check(Path(arguments[0]), 0.0, alone=True, origin="image")
    for moved in report.moved:
        print(moved.line(), file=sys.stderr)
    print(f"{report.sealed} kernels sealed, {report.whole} whole")
    return int(bool(report.moved) or not report.whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
