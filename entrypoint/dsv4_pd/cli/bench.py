"""`dsv4-pd bench`: measure a running appliance through its router."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dsv4_pd.bench import compare as comparison
from dsv4_pd.bench import interference, report, results, saturation, soak
from dsv4_pd.bench.load import LoadStep, Request, Target, run
from dsv4_pd.bench.results import Run
from dsv4_pd.bench.summary import summarise
from dsv4_pd.cli import bench_options as parts
from dsv4_pd.cli.bench_options import InterferenceOptions, Output, Place, Work
from dsv4_pd.client.child import started
from dsv4_pd.settings.deprecated import PD_VS_SINGLE


@click.group("bench")
def command() -> None:
    """Measure a running appliance: through the router, with SGLang's own load generator."""


@command.command("sweep")
@click.option(
    "--concurrency",
    default="1,8,16,64",
    show_default=True,
    callback=parts.numbers,
    help="Comma-separated numbers of concurrent requests.",
)
@click.option(
    "--inputs", default="", callback=parts.numbers, help="Comma-separated prompt lengths, instead of --input."
)
@click.option(
    "--requests", default=None, type=int, help="Requests per point; default: 4 per concurrent request, at least 16."
)
@parts.work
@parts.where
def sweep(
    concurrency: tuple[int, ...],
    inputs: tuple[int, ...],
    requests: int | None,
    work: Work,
    place: Place,
    output: Output,
) -> None:
    """Measure throughput and latency at several concurrency levels and prompt lengths."""
    base = work.first_seed()
    sizes = inputs or (work.input_tokens,)
    loads = [
        LoadStep(f"in{size} c{many}", many, requests or max(16, 4 * many), size, work.output_tokens,
             dataset=work.dataset, seed=base + 97 * number)
        for number, (size, many) in enumerate((size, many) for size in sizes for many in concurrency)
    ]  # fmt: skip
    status, target = parts.target(place)
    output, file = parts.growing(output, "sweep", status)
    with parts.progress() as bar:
        task = bar.add_task("sweep", total=sum(load.requests for load in loads))
        found = run(loads, target, lambda request: bar.update(task, advance=1, description=request.step),
                    lambda load, requests: file.add(summarise(load, requests), requests))  # fmt: skip
    done = Run(results.head("sweep", status, output.label), [summarise(load, found[load.name]) for load in loads],
               {name: results.short(requests) for name, requests in found.items()})  # fmt: skip
    parts.show(done.points)
    parts.save([done], output, "sweep")


@command.command("interference")
@parts.disturbance
@parts.where
def interfere(wanted: InterferenceOptions, place: Place, output: Output) -> None:
    """Measure how long prompts affect running streams."""
    status, target = parts.target(place)
    done = _interference(wanted, status, target, output.label)
    parts.save([done], output, "interference")


@command.command("layouts")
@click.option(
    "--layouts",
    "names",
    default="pd,single",
    show_default=True,
    callback=parts.layouts,
    help="Comma-separated layouts, as in DSV4_LAYOUT.",
)
@parts.disturbance
@parts.files
def layouts(names: tuple[str, ...], wanted: InterferenceOptions, output: Output) -> None:
    """Measure interference on several layouts of the same devices, starting and stopping each."""  # fmt: skip
    _layouts(names, wanted, output, "layouts")


@command.command("pd-vs-single", hidden=True)
@parts.disturbance
@parts.files
def pd_vs_single(wanted: InterferenceOptions, output: Output) -> None:
    """The old name of `layouts --layouts pd,single`."""
    click.echo(PD_VS_SINGLE.told(), err=True)
    _layouts(("pd", "single"), wanted, output, "pd-vs-single")


def _layouts(names: tuple[str, ...], wanted: InterferenceOptions, output: Output, experiment: str) -> None:
    runs: list[Run] = []
    for name in names:
        Console(stderr=True).print(f"starting layout {name}", highlight=False)
        alone = name.partition(":")[0] == "single"
        with started({"layout": name}, _devices_of(runs[0]) if runs and alone else {}) as running:
            status, target = parts.target(Place(running.ops_url, running.api_url, None))
            label = name.replace(":", "-")  # part of a file's name
            runs.append(_interference(wanted, status, target, label))
    parts.save(runs, output, experiment)


@command.command("saturation")
@click.option("--from", "first", default=1, show_default=True, help="Initial concurrency; doubled at each step.")
@click.option("--to", "limit", default=512, show_default=True, help="Maximum concurrency.")
@click.option("--ttft-limit", default=10.0, show_default=True, help="Stop when p99 TTFT exceeds this (seconds).")
@parts.work
@parts.where
def saturate(first: int, limit: int, ttft_limit: float, work: Work, place: Place, output: Output) -> None:
    """Find the load beyond which throughput stops growing."""
    status, target = parts.target(place)
    load = LoadStep(
        "first", first, 0, work.input_tokens, work.output_tokens, dataset=work.dataset, seed=work.first_seed()
    )
    output, file = parts.growing(output, "saturation", status)
    with parts.progress() as bar:
        task = bar.add_task("doubling the concurrency", total=None)

        def tell(point: dict[str, Any], requests: list[Request]) -> None:
            file.add(point, requests)
            told = f"C={point['concurrency']}: {point['output_tokens_per_s']:,.0f} tokens/s"
            bar.update(task, description=told)

        points, found, verdict = saturation.find(load, target, limit, ttft_limit, tell)
    done = Run({**results.head("saturation", status, output.label), "saturation": verdict}, points,
               {name: results.short(requests) for name, requests in found.items()})  # fmt: skip
    parts.show(points)
    click.echo(f"knee at {verdict['knee']} concurrent requests: {verdict['reason']}")
    parts.save([done], output, "saturation")


@command.command("soak")
@click.option("--minutes", default=60.0, show_default=True, help="Duration (minutes).")
@click.option("--concurrency", default=8, show_default=True, help="Number of concurrent requests.")
@click.option("--requests", default=64, show_default=True, help="Requests per window.")
@parts.work
@parts.where
def soaking(minutes: float, concurrency: int, requests: int, work: Work, place: Place, output: Output) -> int:
    """Run the same load for a long time; exit 1 if a metric degrades or a request fails."""
    status, target = parts.target(place)
    load = LoadStep("window", concurrency, requests, work.input_tokens, work.output_tokens,
                dataset=work.dataset, seed=work.first_seed())  # fmt: skip
    output, file = parts.growing(output, "soak", status)
    with parts.progress() as bar:
        task = bar.add_task("soak", total=minutes * 60)

        def tell(point: dict[str, Any], requests: list[Request]) -> None:
            file.add(point, requests)
            bar.update(task, completed=point["at_s"])

        points, found = soak.soak(load, target, minutes * 60, tell)
    found_trends = soak.trends(points)
    for trend in found_trends:
        word = "degrades" if trend["worse"] else "steady"
        click.echo(f"{trend['figure']:<16} {trend['change']:+.1%} [{trend['low']:+.1%}, {trend['high']:+.1%}]  {word}")
    done = Run({**results.head("soak", status, output.label), "trends": found_trends}, points,
               {name: results.short(requests) for name, requests in found.items()})  # fmt: skip
    parts.save([done], output, "soak")
    return int(any(trend["worse"] for trend in found_trends) or any(point["failed"] for point in points))


@command.command("compare")
@click.argument("before", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def compare(before: Path, after: Path) -> int:
    """Compare two runs with confidence intervals; exit 1 if something became slower. Both must be of the same host."""
    rows = comparison.compare(results.read(before), results.read(after))
    table = Table(box=None, pad_edge=False)
    for name in ("load", "figure", "after / before", "95 % interval", ""):
        table.add_column(name)
    for row in rows:
        band = f"{row.ratio.low:.3f} to {row.ratio.high:.3f}"
        table.add_row(row.point, row.figure, f"{row.ratio.value:.3f}", band, row.verdict)
    Console().print(table)
    return int(any(row.verdict == "slower" for row in rows))


@command.command("report")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=parts.FILE, help="HTML file to write.")
def write_report(files: tuple[Path, ...], out: Path) -> None:
    """Write one HTML report from one or more result files."""
    out.write_text(report.html([results.read(file) for file in files]), encoding="utf-8")
    click.echo(f"report: {out}")


def _interference(wanted: InterferenceOptions, status: dict[str, Any], target: Target, label: str | None) -> Run:
    plan = interference.Disturbance(
        streams=wanted.streams,
        stream_input=64,
        stream_output=wanted.stream_output,
        prompts=wanted.prompts,
        prompt_tokens=wanted.prompt_tokens,
        quiet_s=wanted.quiet,
        seed=time.time_ns() % 10**6,
    )
    with parts.progress() as bar:
        task = bar.add_task("interference", total=None)
        point = interference.measure(plan, target, lambda text: bar.update(task, description=text))
    quiet, busy = point["quiet"]["itl"], point["busy"]["itl"]
    left = f"{point['rate']['left']:.0%} of the token rate left"
    waits = ", ".join(f"{share} {quiet[share]:.4f} → {busy[share]:.4f} s" for share in ("p50", "p99"))
    layout = (status.get("about") or {}).get("layout") or status.get("mode")
    click.echo(f"{label or layout}: wait for a token {waits}; {left}")
    return Run(results.head("interference", status, label), [{"name": "interference", **point}])


def _devices_of(pair: Run) -> dict[str, str]:
    """The single server gets what both roles had: all cards by its profile, and without cards as many threads."""
    about = pair.head["appliance"]
    return {} if about["machine"]["gpus"] else {"OMP_NUM_THREADS": str(len(about["placement"]))}
