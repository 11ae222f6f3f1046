"""What a server's log lines mean: `config/signatures.toml` compiled to `read_line(text) -> Meaning | None`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsv4_pd.run.guard.decide.states import Complaint, Phase, Remedy
from dsv4_pd.run.guard.watch.advice import shortage

# "[2026-11-29 15:20:11 TP0] " or "[2026-11-29 15:20:11] "
_PREFIX = re.compile(r"^\[\d{4}-\d\d-\d\d[^\]]{0,60}\]\s+")
# What torch puts before an exception that ends a rank, and before NCCL's own records.
_RANK = re.compile(r"^\[rank\d{1,5}\]: ?")
# A thread of NCCL's that ended: what was raised in it stands behind.
_THREAD = re.compile(
    r"^\[E[\d :.]{0,40} ?ProcessGroupNCCL\.cpp:\d{1,6}\] \[[^\]]{1,120}\] "
    r"\w[\w ]{0,40} thread terminated with exception: "
)
# A record that carries a traceback on its one line: what was raised stands behind the last escaped line break.
_TRACEBACK = re.compile(r"Scheduler hit an exception: Traceback .*(?:\\n|\\x0a)(?=[\w.]+(?:Error|Exception)\b)")


def message_of(line: str) -> str:
    """A line without the engine's prefix, and torch's."""
    return _RANK.sub("", _PREFIX.sub("", line, count=1), count=1)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one line says."""

    phase: Phase | None = None
    percent: int | None = None
    complaint: Complaint | None = None


class Signatures:
    """The compiled table; a line that matches nothing means nothing."""

    def __init__(self, text: str) -> None:
        data = tomllib.loads(text)
        self._rows: list[tuple[re.Pattern[str], Meaning | None]] = [
            (_pattern(item), _meaning(kind, item)) for kind in ("fatal", "milestone") for item in data.get(kind, ())
        ]
        self._progress = [(re.compile(item["regex"]), Phase(item["phase"])) for item in data.get("progress", ())]

    def read_line(self, line: str) -> Meaning | None:
        """The meaning of one line.

        >>> toml = '[[fatal]]\\ntext = "SIGQUIT received."\\naction = "restart-role"\\ncause = "a child failed"'
        >>> Signatures(toml).read_line("[2026-11-29 15:20:11 TP0] SIGQUIT received.").complaint.cause
        'a child failed'
        >>> Signatures(toml).read_line("[2026-11-29 15:20:11] Receive: text='SIGQUIT received.'")
        """
        message = message_of(line)
        raised = _THREAD.sub("", _TRACEBACK.sub("", message, count=1), count=1)
        for text in (raised, message) if raised != message else (message,):
            for pattern, meaning in self._rows:
                if found := pattern.match(text):
                    return _filled(meaning, found.groupdict())
        for pattern, phase in self._progress:
            found = pattern.match(message)
            if found:
                return Meaning(phase, _percent(found.groupdict()))
        return None


def _pattern(item: Mapping[str, Any]) -> re.Pattern[str]:
    return re.compile(item["regex"] if "regex" in item else re.escape(item["text"]))


def _meaning(kind: str, item: Mapping[str, Any]) -> Meaning | None:
    if kind == "milestone":
        return Meaning(phase=Phase(item["phase"]))
    if item["action"] == "ignore":
        return None
    return Meaning(
        complaint=Complaint(
            Remedy(item["action"]), item["cause"], item.get("exit_code", 1), memory=item.get("memory", False)
        )
    )


def _filled(meaning: Meaning | None, groups: Mapping[str, str]) -> Meaning | None:
    """With what the line itself tells in the cause."""
    if meaning is None or meaning.complaint is None or not groups:
        return meaning
    said = meaning.complaint
    told = {name: (text or "").strip() for name, text in groups.items()}
    return replace(meaning, complaint=replace(said, cause=said.cause.format(**told), short=shortage(groups)))


def _percent(groups: Mapping[str, str | None]) -> int | None:
    if groups.get("percent"):
        return min(100, int(groups["percent"] or 0))
    done, total = groups.get("done"), groups.get("total")
    return min(100, 100 * int(done) // int(total)) if done and total and int(total) else None
