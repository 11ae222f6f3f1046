"""The model beside the experiment: two runs calibrate it, then it says what is worth a run and how far it was off."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean

from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.predict import Prediction, Seen, calibrate, predict, worth
from dsv4_pd.bench.tune.state import Candidate, State
from dsv4_pd.bench.tune.workload import Workload
from dsv4_pd.settings.layout import parse


def foresee(state: State, work: Workload, aim: Objective) -> None:
    """After the second layout's first run: a prediction for each layout, and a verdict on those not worth a run."""
    ran = [one for one in state.candidates if one.stage == "layout" and one.runs and one.verdict != "wrong"]
    if state.costs is not None or len(ran) < 2:
        return
    costs = calibrate(*(seen(one, work) for one in ran[:2]))
    state.costs = asdict(costs)
    ours = [one for one in state.candidates if one.stage == "layout" and one.verdict in ("open", "no better", "kept")]
    found = {one.name: predict(parse(one.layout), work, costs, aim) for one in ours}
    for one, near in zip(ours, worth([found[one.name].score for one in ours], aim.kind), strict=True):
        one.predicted = _record(found[one.name], aim)
        if one.verdict == "open" and not one.runs and not near and one.name != state.best:
            one.verdict = "not worth a run"
            one.why = f"the model expects {found[one.name].score:.3g}; {_best(found, aim):.3g} of the best"


def _best(found: dict[str, Prediction], aim: Objective) -> float:
    scores = [one.score for one in found.values()]
    return min(scores) if aim.kind == "latency" else max(scores)


def _record(prediction: Prediction, aim: Objective) -> dict[str, float]:
    merit = -prediction.score if aim.kind == "latency" else prediction.score
    return {name: round(value, 6) for name, value in {**asdict(prediction), "merit": merit}.items()}


def seen(candidate: Candidate, work: Workload) -> Seen:
    """The first run as the model takes it. What a whole server loses to reading prompts is taken out of its steps."""
    layout, run = parse(candidate.layout), candidate.runs[0]
    readers, writers = layout.groups[0].count, layout.groups[-1].count
    per_s, itl = fmean(window.per_s for window in run.windows), fmean(window.itl for window in run.windows)
    reading = run.alone_ttft / run.alone_tokens * work.input_tokens * per_s / readers
    free = 1.0 if layout.kind == "pd" else max(0.1, 1 - reading)
    return Seen(
        tensor_parallel=layout.groups[0].tensor_parallel or 1,
        prompt_tokens=run.alone_tokens,
        ttft_alone=run.alone_ttft,
        step_alone=run.alone_itl,
        step_busy=itl * free,
        busy=per_s * work.output_tokens * itl / writers,
    )


def errors(state: State) -> dict[str, float]:
    """Layout -> how far the prediction was off: predicted over measured throughput, less one. The two runs that
    calibrated it are there as well: the model has five numbers and must meet more than that.
    """
    return {
        one.name: one.predicted["per_s"] / fmean(w.per_s for run in one.runs for w in run.windows) - 1
        for one in state.candidates
        if one.predicted and one.runs
    }
