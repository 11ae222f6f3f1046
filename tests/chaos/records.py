"""What slices of long runs leave behind: one line of JSON for each fault as soon as it is over, and one for each end.

A line tells of the requests that ended since the line before it. A slice that was killed has no end, which the report
says.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.account import Kind, hangs, sums
from chaos.run import Done, Run

FOLDER = Path(__file__).with_name("records")
Line = dict[str, Any]


@dataclass(slots=True)
class Recorder:
    """Appends the lines of one slice."""

    file: Path
    mark: Line  # router, seed, commit, when: which slice of what
    run: Run
    _read: int = field(default=0)  # requests that lines tell of
    _wrong: int = field(default=0)

    def fault(self, done: Done) -> None:
        """A fault is over."""
        seconds = {name: round(getattr(done, name), 1) for name in ("act_s", "back_s", "count_s")}
        self._write({"line": "fault", **asdict(done), **seconds, **self._requests()})

    def end(self, started_s: float, wall_s: float) -> None:
        """The slice is over, and the appliance was stopped."""
        report = self.run.report
        self._write({"line": "end", "exit_code": report.exit_code, "leftovers": report.leftovers,
                     "unfinished": self.run.clients.outcomes.unfinished, "start_s": round(started_s, 1),
                     "wall_s": round(wall_s, 1), **self._requests()})  # fmt: skip

    def _requests(self) -> Line:
        """The requests since the last line."""
        record, faults = self.run.clients.outcomes, self.run.report.done
        asked, wrong = record.requests[self._read :], record.wrong[self._wrong :]
        self._read, self._wrong = self._read + len(asked), self._wrong + len(wrong)
        found = sums(asked, self.run.watcher.timeline, faults)
        return {"answered": named(found.answered), "failed": named(found.failed),
                "hung": sum(hangs(one, faults) for one in asked), "wrong": wrong}  # fmt: skip

    def _write(self, line: Line) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(self.mark | line) + "\n")


def named(counted: Counter[Kind]) -> dict[str, int]:
    """Kinds by their names."""
    return {kind.name.lower(): counted[kind] for kind in Kind if counted[kind]}


def path(router: str, seed: int, folder: Path = FOLDER) -> Path:
    """Where the slices of one sequence are kept."""
    return folder / f"{router}-{seed}.jsonl"


def read(folder: Path = FOLDER) -> Iterator[Line]:
    """Every line of every slice."""
    for file in sorted(folder.glob("*.jsonl")):
        yield from (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())


def next_number(lines: Iterable[Line], router: str, seed: int) -> int:
    """The first fault of a sequence that no line tells of."""
    done = {line["number"] for line in lines
            if line["line"] == "fault" and (line["router"], line["seed"]) == (router, seed)}  # fmt: skip
    return next(number for number in range(1, len(done) + 2) if number not in done)


def commit() -> str:
    """What was tried: the commit, marked where the tree was changed beside the records."""
    root = Path(__file__).resolve().parents[2]
    changed = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!tests/chaos/records", ":!docs"]
    try:
        said = [subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
                for words in (["git", "rev-parse", "--short=12", "HEAD"], changed)]  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said[0] + ("-changed" if said[1] else "")
