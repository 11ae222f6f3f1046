"""What an experiment knows so far: one JSON file, written whole after every run, from which the next one goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsv4_pd.errors import Problem, SettingsError

Verdict = Literal["open", "kept", "no better", "unfit", "not worth a run", "wrong", "failed", "not applicable"]
STAGES = ("layout", "switches")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Window(_Record):
    """One window of the load: its figure, and what is needed to explain it. Seconds, tokens."""

    score: float
    tokens_per_s: float
    per_s: float  # requests a second
    ttft: float
    itl: float
    latency: float
    failed: int = 0  # refused, broken or cut


class Measured(_Record):
    """One run: a start of the appliance, its answers, its windows."""

    windows: list[Window]
    answers: list[dict[str, str | None]]  # one a pass over the questions
    alone_ttft: float  # means of the requests that were sent one after another; seconds
    alone_itl: float
    alone_tokens: float  # of their prompts
    ready_s: float
    took_s: float


class Candidate(_Record):
    """One thing to try. `settings`: by field; `variables`: the engine's own; `flags`: of every server."""

    name: str
    stage: Literal["layout", "switches"]
    layout: str
    settings: dict[str, str] = Field(default_factory=dict)
    variables: dict[str, str] = Field(default_factory=dict)
    flags: list[str] = Field(default_factory=list)
    verdict: Verdict = "open"
    why: str = ""
    predicted: dict[str, float] | None = None
    gain: tuple[float, float, float] | None = None  # (value, low, high) against the best of that moment
    runs: list[Measured] = Field(default_factory=list)

    @property
    def scores(self) -> list[float]:
        """Of every window of every run."""
        return [window.score for run in self.runs for window in run.windows]


class State(_Record):
    """The whole experiment. `key` and `plan` say what it belongs to: another machine or load begins a new one."""

    format: Literal[1] = 1
    key: dict[str, Any]
    plan: dict[str, Any]  # workload, objective, windows: a change of these is another experiment
    begun: str  # UTC
    candidates: list[Candidate]
    best: str  # name of the candidate that stands
    reference: dict[str, str] = Field(default_factory=dict)
    costs: dict[str, float] | None = None
    done: bool = False

    def named(self, name: str) -> Candidate:
        """A candidate; each name is there once."""
        return next(candidate for candidate in self.candidates if candidate.name == name)

    @property
    def present(self) -> Candidate:
        """What was in force when the experiment began: always the first."""
        return self.candidates[0]


def load(path: Path) -> State | None:
    """The experiment so far; None where there is none.

    Raises:
        SettingsError: a file that is something else; nobody's results are overwritten.
    """
    try:
        return State.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        found = str(error).splitlines()[0]
        remedy = "dsv4-pd tune --reset begins again"
        raise SettingsError([Problem(str(path), found, "an experiment of dsv4-pd tune", remedy)]) from error


def save(path: Path, state: State) -> None:
    """Whole or not at all: a run that ends in the middle of it leaves the last state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(state.model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
