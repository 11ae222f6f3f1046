"""`dsv4-pd tune`: choose layout and engine switches by measuring them on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

import click
from rich.console import Console
from rich.table import Table

from dsv4_pd.bench.tune import alone, receipt, report, setup, state, workload
from dsv4_pd.bench.tune.experiment import Rules, go
from dsv4_pd.bench.tune.live import Appliances
from dsv4_pd.bench.tune.objective import Objective
from dsv4_pd.bench.tune.setup import Bench
from dsv4_pd.bench.tune.state import STAGES, State
from dsv4_pd.cli.gathered import into
from dsv4_pd.client import where
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.machine import Live
from dsv4_pd.plan.around import tuned
from dsv4_pd.plan.around.tuned import EXTRA
from dsv4_pd.plan.show import tuned_lines

FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The load, what is better under it, and how long it is measured."""

    word: str | None
    trace: Path | None
    objective: Literal["throughput", "latency"]
    ttft: float | None
    itl: float | None
    concurrency: int | None
    requests: int | None
    windows: int
    everything: bool


@click.command("tune")
@click.argument("what", required=False, type=click.Choice([*STAGES, "all"]), default="all")
@click.option(
    "--workload",
    "word",
    type=click.Choice(list(workload.WORDS)),
    default=None,
    help="Load to measure under; default: $DSV4_PRESET, or chat.",
)
@click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Your own load: JSON lines {"at_s": 0.5, "input": 812, "output": 240}.',
)
@click.option(
    "--objective",
    type=click.Choice(["throughput", "latency"]),
    default="throughput",
    show_default=True,
    help="What to optimise: tokens/s within the limits, or p90 latency of whole answers.",
)
@click.option("--ttft", type=float, help="Limit on the time to first token (seconds).")
@click.option("--itl", type=float, help="Limit on a request's mean inter-token latency (seconds).")
@click.option("--concurrency", type=click.IntRange(1), help="Concurrent requests; default: the workload's.")
@click.option("--requests", type=click.IntRange(2), help="Requests per window; default: 2 per concurrent request.")
@click.option("--windows", type=click.IntRange(3), default=5, show_default=True, help="Windows per run.")
@click.option("--everything", is_flag=True, help="Also run candidates that the model predicts to be far behind.")
@click.option("--report", "page", type=FILE, help="Report (HTML); default: beside the experiment.")
@click.option("--show", "showing", is_flag=True, help="Show the choice and the experiment; start nothing.")
@click.option("--reset", is_flag=True, help="Remove the choice and the experiment; start nothing.")
@click.option("--export", "to", type=FILE, help="Write choice and experiment to a file (JSON); start nothing.")
@into(TuneOptions, "asked")
def command(what: str, showing: bool, reset: bool, to: Path | None, page: Path | None, asked: TuneOptions) -> int:
    """Try layouts, then engine switches, each as the real appliance under your load, and keep what is better.

    Takes the whole machine for minutes per candidate. Ctrl-C stops it; the same command resumes it.
    """  # fmt: skip
    bench = setup.look(os.environ, Live())
    if showing or reset or to:
        return _other(bench, reset, to)
    alone.refuse(bench.present)
    with alone.only_one(bench.folder):
        return _run(bench, STAGES if what == "all" else (what,), asked, page)


def _other(bench: Bench, reset: bool, to: Path | None) -> int:
    found = state.load(bench.file) if not reset else None
    if reset:
        _reset(bench)
    elif to:
        path = tuned.path_of(bench.present.planned().paths.state)
        chosen = path.read_text(encoding="utf-8") if path.exists() else None
        data = {"receipt": chosen, "experiment": found.model_dump(mode="json") if found else None}
        to.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        click.echo(f"exported: {to}")
    else:
        for line in tuned_lines(bench.present) or ["tuned: nothing was chosen by measuring here"]:
            click.echo(line)
        if found:
            _show(found)
    return 0


def _reset(bench: Bench) -> None:
    with alone.only_one(bench.folder):
        gone = tuned.remove(bench.present.planned().paths.state)
        for path in bench.folder.glob("experiment*.*"):
            path.unlink()
            gone.append(path)
        shutil.rmtree(bench.folder / "appliance", ignore_errors=True)
    click.echo("\n".join(f"removed: {path}" for path in gone) or "nothing was there")


def _run(bench: Bench, stages: tuple[str, ...], asked: TuneOptions, page: Path | None) -> int:
    rules = _rules(bench, asked)
    now = setup.resumed(bench, rules, asked.windows, stages)
    state.save(bench.file, now)
    told = Console(stderr=True, highlight=False)
    click.echo(f"under {rules.work.name}, for {rules.aim.text()}; what stands: {now.best}")
    try:
        with _stoppable():
            go(now, _appliances(bench, rules, asked.windows, told), rules, lambda s: state.save(bench.file, s),
               lambda text: told.print(text, markup=False))  # fmt: skip
    except _Stopped as stop:
        told.print(f"ended by a signal; {bench.file} has every finished run: the same command goes on", markup=False)
        return 128 + stop.number
    finally:
        _write_report(bench, now, rules, page)
    _show(now)
    path = receipt.write(bench.present.planned().paths.state, receipt.values(now, rules.work, rules.aim))
    click.echo(f"chosen: {now.best}; written to {path}")
    click.echo("\n".join(tuned_lines(setup.look(bench.environ, bench.machine).present)))
    return 0


def _rules(bench: Bench, asked: TuneOptions) -> Rules:
    settings = bench.present.planned().settings
    if asked.trace:
        work = workload.read(asked.trace, asked.concurrency)
    else:
        word = asked.word or settings.preset or "chat"
        work = workload.of_word(word, asked.requests, asked.concurrency)
    aim = Objective(asked.objective, asked.ttft, asked.itl)
    if work.open and aim == Objective():
        why = "requests that arrive at their own moments make every layout that keeps up equally fast"
        raise click.UsageError(f"{why}: give --ttft or --itl, --objective latency, or --concurrency")
    return Rules(
        work=work.within(settings.context_length),
        aim=aim,
        everything=asked.everything,
    )


def _appliances(bench: Bench, rules: Rules, windows: int, told: Console) -> Appliances:
    plan = bench.present.planned()
    if not plan.settings.engine_python.exists():
        raise ApplianceError(f"the load generator is the engine's, and {plan.settings.engine_python} does not exist")
    same = {"cache_dir": str(plan.paths.cache), "state_dir": str(bench.folder / "appliance"), "safe_mode": "off"}
    return Appliances(
        work=rules.work,
        aim=rules.aim,
        windows=windows,
        engine_python=plan.settings.engine_python,
        settings=same,
        key=where.api_key(bench.environ),
        tell=lambda text: told.print(text, markup=False),
        extra_args={name: getattr(plan.settings, name) for name in EXTRA},
    )


class _Stopped(BaseException):
    """A signal asked for the end; not an error, so that nothing takes it for a failed candidate."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _stoppable() -> Iterator[None]:
    """The first signal ends the run that goes on, and what it started; later ones can't hurry that."""
    hit: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        if not hit:
            hit.append(number)
            raise _Stopped(number)

    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {kind: signal.signal(kind, end) for kind in kinds}
    try:
        yield
    except SystemExit as left:  # of `client.child`, which has a handler of its own while its child runs
        raise _Stopped(signal.SIGTERM) from left
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _write_report(bench: Bench, now: State, rules: Rules, page: Path | None) -> None:
    path = page or bench.file.with_suffix(".html")
    if any(one.runs for one in now.candidates):
        path.write_text(report.html(now, rules.aim, bench.about), encoding="utf-8")
        click.echo(f"report: {path}")


def _show(now: State) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("candidate", "stage", "verdict", "figure", "why"):
        table.add_column(name)
    for one in now.candidates:
        figure = f"{sum(one.scores) / len(one.scores):.4g}" if one.scores else ""
        verdict: str = "stands" if one.name == now.best else one.verdict
        if one is now.present and one.name != now.best:
            verdict = "was in force"
        table.add_row(one.name, one.stage, verdict, figure, one.why)
    Console(width=max(100, shutil.get_terminal_size().columns)).print(table)
    done = "done" if now.done else "not done: the same command goes on"
    click.echo(f"experiment of {now.begun}: {done}")
