"""The page of an experiment: what was tried, what it gained, what was refused and why, how far the model was off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from statistics import fmean
from typing import Any

from dsv4_pd.bench.report import Section, page, rows
from dsv4_pd.bench.svg import Axes, Series, plot
from dsv4_pd.bench.tune.forecast import errors
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.state import Candidate, State

_TRIED = ("candidate", "stage", "verdict", "figure", "against the best, 95 % over all", "requests/s", "TTFT", "ITL",
          "answer", "runs")  # fmt: skip


def html(state: State, aim: Objective, machine: Mapping[str, Any]) -> str:
    """One file that needs nothing else; of an experiment that is not done, what there is."""
    sections = [*_tried(state, aim), *_windows(state, aim), *_refused(state), *_model(state)]
    title = f"tune: {state.named(state.best).name}" + ("" if state.done else " (not done)")
    return page(title, _facts(state, aim, machine), sections)


def _facts(state: State, aim: Objective, machine: Mapping[str, Any]) -> str:
    gpus = machine.get("gpus") or []
    cards = f"{len(gpus)} × {gpus[0]['name']}" if gpus else "no GPU"
    facts = {
        "host": f"{cards} · {machine.get('cpus')} CPUs, {machine.get('cpu')}",
        "measured with": ", ".join(f"{name} {value}" for name, value in state.key.items() if name != "cards"),
        "workload": str(state.plan["workload"]["name"]),
        "wanted": aim.text(),
        "begun": state.begun,
    }
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()) + "</dl>"


def _tried(state: State, aim: Objective) -> Iterator[Section]:
    found = [_row(state, one) for one in state.candidates if one.runs]
    text = f"The figure is {escape(aim.text())}. A candidate stays only if it is better with confidence, in two runs."
    yield "Tried", text, rows(_TRIED, found)


def _row(state: State, one: Candidate) -> tuple[str, ...]:
    windows = [window for run in one.runs for window in run.windows]
    verdict = "stands" if one.name == state.best else ("what was in force" if one is state.present else one.verdict)
    gain = f"× {one.gain[0]:.3f} ({one.gain[1]:.3f} to {one.gain[2]:.3f})" if one.gain else "–"
    means = [f"{fmean(getattr(w, name) for w in windows):.4g}" for name in ("per_s", "ttft", "itl", "latency")]
    return one.name, one.stage, verdict, f"{fmean(one.scores):.4g}", gain, *means, str(len(one.runs))


def _windows(state: State, aim: Objective) -> Iterator[Section]:
    ran = [one for one in state.candidates if one.runs]
    most = max((len(one.scores) for one in ran), default=0)
    if most < 2:
        return
    high = max(value for one in ran for value in one.scores)
    axes = Axes("window", aim.text()[:40], (0.0, most + 1.0), (0.0, (high or 1.0) * 1.15))
    lines = [
        Series(one.name, [(at + 1.0, value) for at, value in enumerate(one.scores)], f"s{n % 6}", marks=True)
        for n, one in enumerate(ran)
    ]
    yield "Every window", "Lines that cross often can't be told apart.", plot(axes, lines)


def _refused(state: State) -> Iterator[Section]:
    left = [
        (one.name, one.stage, one.verdict, one.why) for one in state.candidates if one.why and one.verdict != "kept"
    ]
    if left:
        yield "Not taken", "What was refused, and why.", rows(("candidate", "stage", "verdict", "why"), left)


def _model(state: State) -> Iterator[Section]:
    found = errors(state)
    predicted = [one for one in state.candidates if one.predicted]
    if not predicted:
        return
    lines = [
        (one.name, *(f"{one.predicted[name]:.4g}" for name in ("per_s", "ttft", "itl")),
         f"{found[one.name]:+.0%}" if one.name in found else "not measured")
        for one in predicted if one.predicted
    ]  # fmt: skip
    text = "A queueing model, calibrated by the first two layouts' first runs; it only says what is worth a run."
    yield "The model beside it", text, rows(("layout", "requests/s", "TTFT", "ITL", "off by"), lines)
