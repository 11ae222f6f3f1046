"""What the engine's processes compiled, and found compiled: the lines of `dsv4_hooks.compiles`, added up by name.

A line is read once, and it is a process's that may be gone by then: which server it belonged to is asked when its file
is first seen. A guard that is started again reads all files again; what was compiled after READY counts as such only
when it saw that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsv4_pd.run.follow import Follower

SHOWN = 100  # names in the document and the metrics; the engine has fewer


@dataclass(frozen=True, slots=True)
class Line:
    """One look-up. time: of its end, in seconds since the epoch."""

    time: float
    system: str
    kernel: str
    seconds: float
    cached: bool
    unwatched: str = ""


@dataclass(slots=True)
class Tally:
    """One kernel in one server. late: of `count`, those that were compiled after its warm-up."""

    count: int = 0
    seconds: float = 0.0
    late: int = 0
    longest: float = 0.0


@dataclass(slots=True)
class CompileLog:
    """Everything since the appliance's start."""

    folder: Path
    compiled: dict[tuple[str, str, str], Tally] = field(default_factory=dict)  # (server, system, kernel)
    found: dict[tuple[str, str], int] = field(default_factory=dict)  # (server, system) -> from a cache
    unwatched: dict[str, str] = field(default_factory=dict)
    _files: dict[Path, tuple[str, Follower]] = field(default_factory=dict)

    def read(self, server_of: Callable[[int], str], ready_since: Mapping[str, float]) -> list[Line]:
        """Take in what is new; returns the compilations. ready_since: server -> since when it is ready, if it is."""
        fresh = []
        for path in sorted(self.folder.glob("compiles.*.jsonl")):
            if path not in self._files:
                self._files[path] = server_of(_pid_of(path)), Follower(path)
        for server, follower in self._files.values():
            for line in _lines(follower):
                self._take(server, line, ready_since.get(server, float("inf")))
                fresh += [] if line.cached else [line]
        return fresh

    def _take(self, server: str, line: Line, ready: float) -> None:
        if line.unwatched:
            self.unwatched[line.system] = line.unwatched
        elif line.cached:
            key = server, line.system
            self.found[key] = self.found.get(key, 0) + 1
        else:
            tally = self.compiled.setdefault((server, line.system, line.kernel), Tally())
            tally.count += 1
            tally.seconds += line.seconds
            tally.late += line.time > ready
            tally.longest = max(tally.longest, line.seconds)

    def offence(self, fresh: Sequence[Line]) -> str:
        """What a strict appliance ends with; blank while there is none."""
        if fresh:
            first = min(fresh, key=lambda line: line.time)
            return f"compiled at run time: {first.system} {first.kernel} ({first.seconds:.1f} s)"
        return next((f"{system} can't be watched ({why})" for system, why in self.unwatched.items()), "")

    def seconds(self) -> dict[tuple[str, str], float]:
        """(system, kernel) -> the longest time that compiling it took."""
        found: dict[tuple[str, str], float] = {}
        for (_, system, kernel), tally in self.compiled.items():
            found[system, kernel] = max(found.get((system, kernel), 0.0), tally.longest)
        return found

    def document(self) -> dict[str, Any]:
        """For /status and the metrics; the most expensive names first."""
        rows = sorted(self.compiled.items(), key=lambda item: -item[1].seconds)
        return {
            "since_start": sum(tally.count for tally in self.compiled.values()),
            "since_ready": sum(tally.late for tally in self.compiled.values()),
            "seconds": round(sum(tally.seconds for tally in self.compiled.values()), 3),
            "from_cache": [
                {"member": server, "system": system, "count": count} for (server, system), count in self.found.items()
            ],
            "unwatched": dict(self.unwatched),
            "kernels": [
                {
                    "member": server,
                    "system": system,
                    "kernel": kernel,
                    "count": tally.count,
                    "seconds": round(tally.seconds, 3),
                    "since_ready": tally.late,
                }
                for (server, system, kernel), tally in rows[:SHOWN]
            ],
        }


def _pid_of(path: Path) -> int:
    text = path.name.split(".")[1]
    return int(text) if text.isdecimal() else 0


def _lines(follower: Follower) -> Iterator[Line]:
    for text in follower.lines():
        try:
            values = json.loads(text)
            yield Line(
                float(values["time"]),
                str(values["system"])[:40],
                str(values["kernel"])[:120],
                float(values["seconds"]),
                bool(values["cached"]),
                str(values.get("unwatched", "")),
            )
        except (ValueError, TypeError, KeyError):
            continue  # cut off: the disk was full
