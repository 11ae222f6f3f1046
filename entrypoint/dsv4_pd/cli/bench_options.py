"""What the experiments of `dsv4-pd bench` share: options, the target, progress, tables, files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from dsv4_pd.bench import bars, report, results
from dsv4_pd.bench.load import Target
from dsv4_pd.bench.results import Run
from dsv4_pd.cli.gathered import Command, into
from dsv4_pd.cli.status import default_url
from dsv4_pd.client import where as places
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.settings.layout import parse
from dsv4_pd.settings.load import load as load_settings

FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the appliance is."""

    url: str
    api_url: str | None
    api_key_file: Path | None


@dataclass(frozen=True, slots=True)
class Output:
    """Where the results go, and under which name."""

    out: Path | None
    page: Path | None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What one request is."""

    input_tokens: int
    output_tokens: int
    dataset: str
    seed: int | None

    def first_seed(self) -> int:
        """The operator's, or a new one."""
        return self.seed if self.seed is not None else time.time_ns() % 10**6


@dataclass(frozen=True, slots=True)
class InterferenceOptions:
    """What runs, and what is sent into it."""

    streams: int
    stream_output: int
    prompts: int
    prompt_tokens: int
    quiet: float


def numbers(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: expected comma-separated whole numbers, such as 1,8,16") from error


def layouts(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """Layouts as they are written, each checked before anything starts."""
    try:
        names = tuple(part.strip() for part in text.split(",") if part.strip())
        for name in names:
            parse(name)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}") from error
    if len(set(names)) < 2:
        raise click.BadParameter(f"{text!r}: two different layouts or more, such as pd,single")
    return names


def _with(command: Command, options: Sequence[Command]) -> Command:
    """The command with these options, the first one first in its help."""
    for option in reversed(options):
        command = option(command)
    return command


def where(command: Command) -> Command:
    """Options that every experiment has."""
    options = (
        click.option(
            "--url",
            default=default_url,
            show_default="http://$DSV4_OPS_HOST:$DSV4_OPS_PORT",
            help="URL of its ops port.",
        ),
        click.option(
            "--api-url", default=None, help="URL of its API; default: the ops port's host, port $DSV4_PORT or 8000."
        ),
        click.option(
            "--api-key-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File with its API key.",
        ),
        click.option("--out", type=FILE, help="Result file (JSON lines); default: EXPERIMENT-TIME.jsonl."),
        click.option("--report", "page", type=FILE, help="Report (HTML); default: beside the result file."),
        click.option("--label", help="Name of this run in reports and comparisons."),
    )
    return _with(into(Place, "place")(into(Output, "output")(command)), options)


def files(command: Command) -> Command:
    """Options of an experiment that starts its own appliances."""
    options = (
        click.option("--out", type=FILE, help="Base name of the result files; each layout's name is appended."),
        click.option("--report", "page", type=FILE, help="Report (HTML); default: beside the result files."),
    )
    return _with(into(Output, "output")(command), options)


def disturbance(command: Command) -> Command:
    """Options that say what runs, and what is sent into it."""
    options = (
        click.option("--streams", default=8, show_default=True, help="Number of running streams."),
        click.option(
            "--stream-output",
            default=2048,
            show_default=True,
            help="Output tokens per stream; streams must outlast the prompts.",
        ),
        click.option("--prompts", default=4, show_default=True, help="Number of long prompts, sent one after another."),
        click.option("--prompt-tokens", default=65536, show_default=True, help="Tokens per long prompt."),
        click.option(
            "--quiet", default=5.0, show_default=True, help="Seconds the streams run alone before the first prompt."
        ),
    )
    return _with(into(InterferenceOptions, "wanted")(command), options)


def work(command: Command) -> Command:
    """Options that say what one request is."""
    options = (
        click.option("--input", "input_tokens", default=1024, show_default=True, help="Tokens per random prompt."),
        click.option("--output", "output_tokens", default=128, show_default=True, help="Tokens per answer."),
        click.option("--dataset", default="random", show_default=True,
                     help="'random', 'real' (shipped prompts), or a file of conversations."),
        click.option("--seed", default=None, type=int, help="Seed of random prompts; default: a new one."),
    )  # fmt: skip
    return _with(into(Work, "work")(command), options)


def target(place: Place) -> tuple[dict[str, Any], Target]:
    ops = Ops(place.url)
    status = ops.status()
    python = load_settings(os.environ).engine_python
    if not python.exists():
        raise ApplianceError(f"the load generator is the engine's, and {python} does not exist; `make engine` makes it")
    about = status.get("about") or {}
    tokenizer = str((about.get("weights") or {}).get("name") or status.get("model"))
    url = place.api_url or places.api_url(ops.url, os.environ)
    key = places.api_key(os.environ, place.api_key_file)
    return status, Target(url, str(status.get("model")), tokenizer, python, key)


@contextmanager
def progress() -> Iterator[Progress]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar


def show(points: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("load", "ok", "failed", "cut", "tokens/s", "TTFT p50", "p99", "ITL p50", "p99"):
        table.add_column(name, justify="left" if name == "load" else "right")
    for p in points:
        times = [f"{p[what].get(share, float('nan')):.4f}" for what in ("ttft", "itl") for share in ("p50", "p99")]
        counts = [str(p[key]) for key in ("completed", "failed", "short")]
        table.add_row(p["name"], *counts, f"{p['output_tokens_per_s']:,.1f}", *times)
    Console().print(table)


def growing(output: Output, experiment: str, status: dict[str, Any]) -> tuple[Output, results.Growing]:
    """The result file from its first line on, and the output with the name that it got."""
    named = replace(output, out=_stem(output, experiment))
    assert named.out is not None
    click.echo(f"results, as they come: {named.out}", err=True)
    return named, results.Growing(named.out, results.head(experiment, status, output.label))


def _stem(output: Output, experiment: str) -> Path:
    return output.out or Path(f"{experiment}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl")


def save(runs: list[Run], output: Output, experiment: str) -> None:
    stem = _stem(output, experiment)
    for one in runs:
        path = stem.with_name(f"{stem.stem}-{one.label}{stem.suffix}") if len(runs) > 1 else stem
        results.write(path, one)
        click.echo(f"results: {path}")
        if any("output_tokens_per_s" in point for point in one.points):
            click.echo("\n".join(bars.lines(one, bars.read())))
    page = output.page or stem.with_suffix(".html")
    page.write_text(report.html(runs), encoding="utf-8")
    click.echo(f"report: {page}")
