"""`dsv4-pd bench`: measure a running appliance through its router."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dsv4_pd.bench import compare as comparison
from dsv4_pd.bench import interference, report, results, saturation, soak
from dsv4_pd.bench.load import Load, Target, run
from dsv4_pd.bench.results import Run
from dsv4_pd.bench.summary import summarise
from dsv4_pd.cli import bench_options as parts
from dsv4_pd.client.child import started


@click.group("bench")
def command() -> None:
    """Measure a running appliance: through the router, with SGLang's own load generator."""


@command.command("sweep")
@click.option(
    "--concurrency",
    default="1,8,16,64",
    show_default=True,
    callback=parts.numbers,
    help="Number of concurrent requests.",
)
@click.option("--inputs", default="", callback=parts.numbers, help="Several prompt lengths, instead of --input.")
@click.option(
    "--requests", default=None, type=int, help="Requests per point; default: 4 per concurrent request, at least 16."
)
@parts.work
@parts.where
def sweep(concurrency: tuple[int, ...], inputs: tuple[int, ...], requests: int | None, **given: Any) -> None:
    """Measure throughput and latency at several concurrency levels and prompt lengths."""
    base = given["seed"] if given["seed"] is not None else time.time_ns() % 10**6
    loads = [
        Load(f"in{size} c{many}", many, requests or max(16, 4 * many), size, given["output_tokens"],
             dataset=given["dataset"], seed=base + 97 * place)
        for place, (size, many) in enumerate((s, c) for s in inputs or (given["input_tokens"],) for c in concurrency)
    ]  # fmt: skip
    status, target = parts.target(given)
    with parts.progress() as bar:
        task = bar.add_task("sweep", total=sum(load.requests for load in loads))
        found = run(loads, target, lambda request: bar.update(task, advance=1, description=request.step))
    done = Run(results.head("sweep", status, given["label"]), [summarise(load, found[load.name]) for load in loads],
               {name: results.short(requests) for name, requests in found.items()})  # fmt: skip
    parts.show(done.points)
    parts.save([done], given, "sweep")


@command.command("interference")
@parts.disturbance
@parts.where
def interfere(**given: Any) -> None:
    """Measure how long prompts affect running streams."""
    status, target = parts.target(given)
    done = _interference(given, status, target, given["label"])
    parts.save([done], given, "interference")


@command.command("pd-vs-single")
@parts.disturbance
@click.option("--out", type=parts.FILE, help="Base name of the result files; -pd and -single are appended.")
@click.option("--report", "page", type=parts.FILE, help="Report (HTML); default: beside the result files.")
def pd_vs_single(**given: Any) -> None:
    """Measure interference on a pair and on a single server with the same devices; starts and stops both."""
    runs: list[Run] = []
    for mode in ("pd", "single"):
        Console(stderr=True).print(f"starting in {mode} mode", highlight=False)
        with started({"mode": mode}, _devices_of(runs[0]) if runs else {}) as running:
            where = {"url": running.ops_url, "api_url": running.api_url, "api_key_file": None}
            status, target = parts.target({**given, **where})
            runs.append(_interference({**given, **where}, status, target, mode))
    parts.save(runs, given, "pd-vs-single")


@command.command("saturation")
@click.option("--from", "first", default=1, show_default=True, help="Initial concurrency; doubled at each step.")
@click.option("--to", "limit", default=512, show_default=True, help="Maximum concurrency.")
@click.option("--ttft-limit", default=10.0, show_default=True, help="Stop when p99 TTFT exceeds this (seconds).")
@parts.work
@parts.where
def saturate(first: int, limit: int, ttft_limit: float, **given: Any) -> None:
    """Find the load beyond which throughput stops growing."""
    status, target = parts.target(given)
    seed = given["seed"] if given["seed"] is not None else time.time_ns() % 10**6
    load = Load("first", first, 0, given["input_tokens"], given["output_tokens"], dataset=given["dataset"], seed=seed)
    with parts.progress() as bar:
        task = bar.add_task("doubling the concurrency", total=None)
        points, found, verdict = saturation.find(load, target, limit, ttft_limit, lambda point: bar.update(
            task, description=f"C={point['concurrency']}: {point['output_tokens_per_s']:,.0f} tokens/s"))  # fmt: skip
    done = Run({**results.head("saturation", status, given["label"]), "saturation": verdict}, points,
               {name: results.short(requests) for name, requests in found.items()})  # fmt: skip
    parts.show(points)
    click.echo(f"knee at {verdict['knee']} concurrent requests: {verdict['reason']}")
    parts.save([done], given, "saturation")


@command.command("soak")
@click.option("--minutes", default=60.0, show_default=True, help="How long.")
@click.option("--concurrency", default=8, show_default=True, help="Number of concurrent requests.")
@click.option("--requests", default=64, show_default=True, help="Requests per window.")
@parts.work
@parts.where
def soaking(minutes: float, concurrency: int, requests: int, **given: Any) -> int:
    """Run the same load for a long time; exit 1 if a metric degrades or a request fails."""
    status, target = parts.target(given)
    seed = given["seed"] if given["seed"] is not None else time.time_ns() % 10**6
    load = Load("window", concurrency, requests, given["input_tokens"], given["output_tokens"],
                dataset=given["dataset"], seed=seed)  # fmt: skip
    with parts.progress() as bar:
        task = bar.add_task("soak", total=minutes * 60)
        points, found = soak.soak(load, target, minutes * 60, lambda point: bar.update(task, completed=point["at_s"]))
    found_trends = soak.trends(points)
    for trend in found_trends:
        word = "degrades" if trend["worse"] else "steady"
        click.echo(f"{trend['figure']:<16} {trend['change']:+.1%} [{trend['low']:+.1%}, {trend['high']:+.1%}]  {word}")
    done = Run({**results.head("soak", status, given["label"]), "trends": found_trends}, points,
               {name: results.short(requests) for name, requests in found.items()})  # fmt: skip
    parts.save([done], given, "soak")
    return int(any(trend["worse"] for trend in found_trends) or any(point["failed"] for point in points))


@command.command("compare")
@click.argument("before", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def compare(before: Path, after: Path) -> int:
    """Compare two runs with confidence intervals; exit 1 if something became slower. Both must be of one host."""
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


def _interference(given: Mapping[str, Any], status: dict[str, Any], target: Target, label: str | None) -> Run:
    plan = interference.Disturbance(
        streams=given["streams"],
        stream_input=64,
        stream_output=given["stream_output"],
        prompts=given["prompts"],
        prompt_tokens=given["prompt_tokens"],
        quiet_s=given["quiet"],
        seed=time.time_ns() % 10**6,
    )
    with parts.progress() as bar:
        task = bar.add_task("interference", total=None)
        point = interference.measure(plan, target, lambda text: bar.update(task, description=text))
    quiet, busy = point["quiet"]["itl"], point["busy"]["itl"]
    left = f"{point['rate']['left']:.0%} of the token rate left"
    waits = ", ".join(f"{share} {quiet[share]:.4f} → {busy[share]:.4f} s" for share in ("p50", "p99"))
    click.echo(f"{label or status.get('mode')}: wait for a token {waits}; {left}")
    return Run(results.head("interference", status, label), [{"name": "interference", **point}])


def _devices_of(pair: Run) -> dict[str, str]:
    """The single server gets what both roles had: all cards by its profile, and without cards as many threads."""
    about = pair.head["appliance"]
    return {} if about["machine"]["gpus"] else {"OMP_NUM_THREADS": str(len(about["placement"]))}
