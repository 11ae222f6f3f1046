"""The receipt of an experiment, which `serve` and `plan` follow: written when it is done."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from dsv4_pd import __version__
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.state import State
from dsv4_pd.bench.tune.workload import Workload
from dsv4_pd.plan.around import tuned

_HEAD = "# Written by `dsv4-pd tune`; followed where no setting names the layout. `dsv4-pd tune --reset` removes it.\n"


def values(state: State, work: Workload, aim: Objective) -> dict[str, Any]:
    """What is written."""
    best = state.named(state.best)
    windows = [window for run in best.runs for window in run.windows]
    mean = {
        name: round(fmean(getattr(window, name) for window in windows), 6)
        for name in ("per_s", "tokens_per_s", "ttft", "itl", "latency", "score")
    }
    at_once = work.concurrency if not work.open else round(mean["per_s"] * mean["latency"], 2)
    return {
        "format": tuned.FORMAT,
        "tool": f"dsv4-pd {__version__}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "workload": work.name,
        "objective": aim.text(),
        "key": state.key,
        "chosen": {
            "layout": best.layout,
            "settings": best.settings,
            "variables": best.variables,
            "flags": best.flags,
        },
        "measured": {**mean, "concurrency": at_once, "runs": len(best.runs), "windows": len(windows)},
        "against": {one.name: [*(round(part, 4) for part in one.gain)] for one in state.candidates if one.gain},
    }


def write(state_dir: Path, data: Mapping[str, Any]) -> Path:
    """Whole or not at all."""
    path = tuned.path_of(state_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(_HEAD + toml(data), encoding="utf-8")
    fresh.replace(path)
    return path


def toml(data: Mapping[str, Any]) -> str:
    """Plain values and one level of tables (two, where one is nested) as TOML.

    >>> print(toml({"a": 1, "t": {"b.c": "x"}}), end="")
    a = 1
    <BLANKLINE>
    [t]
    "b.c" = "x"
    """
    return "\n".join(_lines(data, ())) + "\n"


def _lines(data: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    for name, value in data.items():
        if not isinstance(value, Mapping):
            yield f"{_name(name)} = {_value(value)}"
    for name, value in data.items():
        if isinstance(value, Mapping):
            where = (*above, _name(name))
            yield f"\n[{'.'.join(where)}]"
            yield from _lines(value, where)


def _name(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: Any) -> str:
    """JSON's strings, numbers and lists are TOML's; a DEL, which only TOML forbids, is in none of ours."""
    return json.dumps(value)
