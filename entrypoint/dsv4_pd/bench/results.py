"""The result file: JSON lines. First what ran and where, then one line a point, then the requests behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.bench.load import Request
from dsv4_pd.errors import Problem, SettingsError

FORMAT = 1


@dataclass(slots=True)
class Run:
    """One run of one experiment on one appliance."""

    head: dict[str, Any]
    points: list[dict[str, Any]] = field(default_factory=list)
    requests: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # point -> its requests

    @property
    def label(self) -> str:
        """Short name for legends."""
        appliance = self.head["appliance"]
        return str(self.head.get("label") or appliance.get("layout") or appliance.get("mode") or "run")


def head(experiment: str, status: Mapping[str, Any], label: str | None = None) -> dict[str, Any]:
    """The first line: the experiment, the appliance, the host."""
    return {
        "kind": "run",
        "format": FORMAT,
        "tool": f"dsv4-pd {__version__}",
        "generator": "sglang.benchmark.serving",
        "experiment": experiment,
        "label": label,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "appliance": {key: status.get(key) for key in ("mode", "profile", "model")} | dict(status.get("about") or {}),
    }


def write(path: Path, run: Run) -> None:
    """The whole file."""
    points = (_lines(point, run.requests.get(point["name"], ())) for point in run.points)
    path.write_text(json.dumps(run.head) + "\n" + "".join(points), encoding="utf-8")


def _lines(point: Mapping[str, Any], requests: Iterable[Mapping[str, Any]]) -> str:
    """A point and the requests behind it."""
    lines = [{"kind": "point", **point}, *({"kind": "request", "point": point["name"], **data} for data in requests)]
    return "".join(json.dumps(line) + "\n" for line in lines)


class Growing:
    """A result file while it is measured: its first line, then each point with its requests as it ends. Whatever ends
    a long run early, what was measured by then can be read.
    """

    def __init__(self, path: Path, first: Mapping[str, Any]) -> None:
        self._path = path
        path.write_text(json.dumps(first) + "\n", encoding="utf-8")

    def add(self, point: Mapping[str, Any], requests: Sequence[Request] = ()) -> None:
        """One point that is measured."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_lines(point, short(requests)))


def short(requests: Sequence[Request]) -> list[dict[str, Any]]:
    """What comparisons and plots need of each request; gaps are kept as a mean, or the file would hold every token."""
    kept = []
    for request in requests:
        data = asdict(request)
        gaps = data.pop("itls")
        kept.append(
            {**data, "itl_mean": round(sum(gaps) / len(gaps), 6) if gaps else None, "itl_max": max(gaps, default=None)}
        )
    return kept


def read(path: Path) -> Run:
    """A result file.

    Raises:
        SettingsError: when it is none.
    """
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise SettingsError(
            [Problem(str(path), str(error), "a result file of dsv4-pd bench", "run bench first")]
        ) from error
    if not lines or lines[0].get("kind") != "run" or lines[0].get("format") != FORMAT:
        raise SettingsError(
            [Problem(str(path), "another kind of file", "a result file of dsv4-pd bench", "run bench first")]
        )
    return _run(lines[0], lines[1:])


def _run(first: dict[str, Any], rest: Iterable[dict[str, Any]]) -> Run:
    run = Run(first)
    for line in rest:
        if line["kind"] == "point":
            run.points.append({key: value for key, value in line.items() if key != "kind"})
        else:
            run.requests.setdefault(line["point"], []).append(line)
    return run
