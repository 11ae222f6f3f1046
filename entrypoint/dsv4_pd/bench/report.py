"""The report: one HTML file that needs nothing else, for people who decide by looking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from dsv4_pd.bench.results import Run
from dsv4_pd.bench.soak import trends
from dsv4_pd.bench.stats import percentile
from dsv4_pd.bench.svg import Axes, Series, plot

Section = tuple[str, str, str]  # heading, what it says, body


def html(runs: Sequence[Run]) -> str:
    """The page for one or more runs; runs of one host, or the tables mislead."""
    sections = [
        *_interference(runs),
        *_curve(runs),
        *_first_token(runs),
        *_saturation(runs),
        *_soak(runs),
        *_table(runs),
    ]
    return page(_title(runs), _facts(runs), sections)


def page(title: str, facts: str, sections: Sequence[Section]) -> str:
    """A page of its own: `facts` and each section's text and body are HTML."""
    body = "".join(f"<section><h2>{escape(head)}</h2><p>{text}</p>{inner}</section>" for head, text, inner in sections)
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1>{facts}</header>{body}</main></body></html>\n"
    )


def _title(runs: Sequence[Run]) -> str:
    return f"{runs[0].head['experiment']}: {' against '.join(dict.fromkeys(run.label for run in runs))}"


def _facts(runs: Sequence[Run]) -> str:
    """Where it was measured; a figure without its host is worth nothing."""
    about = runs[0].head["appliance"]
    host = about.get("machine") or {}
    gpus = host.get("gpus") or []
    cards = f"{len(gpus)} × {gpus[0]['name']}" if gpus else "no GPU"
    versions = ", ".join(f"{name} {number}" for name, number in (about.get("versions") or {}).items())
    facts = {
        "host": f"{cards} · {host.get('cpus')} CPUs, {host.get('cpu')} · {host.get('memory_gb')} GB",
        "model": f"{about.get('model')} · profile {about.get('profile')}",
        "software": versions,
        "measured": f"{runs[0].head['time']} with {runs[0].head['generator']}, through the router",
    }
    terms = "".join(f"<dt>{name}</dt><dd>{escape(str(text))}</dd>" for name, text in facts.items())
    return f"<dl>{terms}</dl>"


def _interference(runs: Sequence[Run]) -> Iterator[Section]:
    found = [(run, point) for run in runs for point in run.points if "windows" in point]
    if not found:
        return
    tiles = "".join(_verdict(run, point) for run, point in found)
    high = max(gap for _, point in found for _, gap in point["gaps"])
    low = min(gap for _, point in found for _, gap in point["gaps"] if gap > 0)
    plots = "".join(_gaps_plot(run, point, (max(low * 0.8, 1e-4), high * 1.3)) for run, point in found)
    text = (
        "Each dot is the wait for one token of a running stream. Shaded: a long prompt is being read. "
        "The dots should not rise there."
    )
    yield "What a long prompt does to running streams", text, f'<div class="tiles">{tiles}</div>{plots}'


def _verdict(run: Run, point: Mapping[str, Any]) -> str:
    quiet, busy, rate = point["quiet"]["itl"], point["busy"]["itl"], point["rate"]
    grown = busy["p99"] / quiet["p99"]
    told = [
        ("token rate left while a prompt is read", f"{rate['left']:.0%}".replace("%", " %")),
        ("wait for a token, p50: alone → meanwhile", f"{_ms(quiet['p50'])} → {_ms(busy['p50'])}"),
        ("p99: alone → meanwhile", f"{_ms(quiet['p99'])} → {_ms(busy['p99'])} (× {grown:.1f})"),
        ("to read one prompt, p50", _ms(point["prompts"]["ttft"]["p50"])),
    ]
    lines = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in told)
    return f'<div class="tile"><h3>{escape(run.label)}</h3>{lines}</div>'


def _gaps_plot(run: Run, point: Mapping[str, Any], reach: tuple[float, float]) -> str:
    end = max(moment for moment, _ in point["gaps"])
    axes = Axes("seconds since all streams run", "wait for a token", (0.0, end), reach, log=True, y_text=_ms)
    dots = Series("one token", [(m, gap) for m, gap in point["gaps"]], "s0", joined=False, marks=True)
    plan = point["plan"]
    name = f"{run.label}: {plan['streams']} streams, prompts of {plan['prompt_tokens']:,} tokens"
    return f"<h3>{escape(name)}</h3>" + plot(axes, [dots], point["windows"], "a long prompt is read")


def _loads(run: Run) -> list[dict[str, Any]]:
    return [point for point in run.points if "output_tokens_per_s" in point]


def _curve(runs: Sequence[Run]) -> Iterator[Section]:
    """Throughput against latency, one dot a concurrency."""
    lines: list[Series] = []
    every: list[tuple[float, float]] = []
    for run in runs:
        for size, points in _by_size(run).items():
            ordered = sorted(points, key=lambda point: point["concurrency"])
            spots = [(p["output_tokens_per_s"], p["latency"]["p50"]) for p in ordered]
            every += spots
            notes = [f"C={p['concurrency']}" for p in ordered]
            lines.append(Series(f"{run.label} {size}", spots, f"s{len(lines) % 6}", marks=True, notes=notes))
    if not every:
        return
    reach = (0.0, max(x for x, _ in every) * 1.12), (0.0, max(y for _, y in every) * 1.15)
    axes = Axes("output tokens per second", "whole answer, p50", *reach, y_text=_ms)
    text = "Right is more work done, down is less waiting; C is the number of requests at once."
    yield "Throughput and latency", text, plot(axes, lines)


def _by_size(run: Run) -> dict[str, list[dict[str, Any]]]:
    sizes: dict[str, list[dict[str, Any]]] = {}
    for point in _loads(run):
        name = point["dataset"] if point["dataset"] != "random" else str(point["input_tokens"])
        sizes.setdefault(f"{name} in / {point['output_tokens']} out", []).append(point)
    return sizes


def _first_token(runs: Sequence[Run]) -> Iterator[Section]:
    """Distribution of the time to the first token."""
    lines: list[Series] = []
    for run in runs:
        for point in _loads(run):
            times = sorted(r["ttft"] for r in run.requests.get(point["name"], []) if r["ok"])
            if len(times) > 1:
                steps = [(time, 100 * (index + 1) / len(times)) for index, time in enumerate(times)]
                lines.append(Series(f"{run.label} {point['name']}", steps, f"s{len(lines) % 6}"))
    if not lines:
        return
    lines = lines[:8]
    end = percentile([x for line in lines for x, _ in line.points], 0.995) * 1.05
    axes = Axes("time to first token", "% of requests", (0.0, end), (0.0, 100.0), x_text=_ms)
    clipped = [Series(s.name, [p for p in s.points if p[0] <= end], s.style) for s in lines]
    yield (
        "Time to the first token",
        "Left and steep is good; a long tail to the right is what p99 sees.",
        plot(axes, clipped),
    )


def _saturation(runs: Sequence[Run]) -> Iterator[Section]:
    for run in runs:
        if found := run.head.get("saturation"):
            text = f"{run.label}: from {found['knee']} at once on, more load buys nothing ({found['reason']})."
            yield "Saturation", escape(text), ""


def _soak(runs: Sequence[Run]) -> Iterator[Section]:
    for run in runs:
        points = [point for point in run.points if "at_s" in point]
        if not points:
            continue
        trend_rows = [
            (t["figure"], f"{t['change']:+.1%}", f"{t['low']:+.1%} to {t['high']:+.1%}",
             "degrades" if t["worse"] else "steady")
            for t in trends(points)
        ]  # fmt: skip
        spots = [(p["at_s"], p["output_tokens_per_s"]) for p in points]
        reach = (0.0, points[-1]["at_s"] * 1.02), (0.0, max(y for _, y in spots) * 1.15)
        body = plot(Axes("seconds", "output tokens per second", *reach), [Series(run.label, spots, "s0", marks=True)])
        head = ("figure", "change over the run", "95 % interval", "verdict")
        yield "Soak", "The trend over all windows, with its interval.", body + rows(head, trend_rows)


_HEAD = (
    "run",
    "load",
    "at once",
    "ok / failed / cut",
    "tokens/s out",
    "TTFT p50",
    "p99",
    "ITL p50",
    "p99",
    "answer p50",
)


def _table(runs: Sequence[Run]) -> Iterator[Section]:
    found = [(run.label, *_cells(point)) for run in runs for point in _loads(run)]
    if found:
        yield "All points", "Every load, every figure.", rows(_HEAD, found)


def _cells(point: Mapping[str, Any]) -> tuple[str, ...]:
    times = [_ms(point[what].get(share)) for what in ("ttft", "itl") for share in ("p50", "p99")]
    ends = f"{point['completed']} / {point['failed']} / {point['short']}"
    rate = f"{point['output_tokens_per_s']:,.0f}"
    return point["name"], str(point["concurrency"]), ends, rate, *times, _ms(point["latency"]["p50"])


def rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table as HTML; the cells are text."""
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    rest = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in lines)
    return f'<div class="wide"><table><tr>{first}</tr>{rest}</table></div>'


def _ms(seconds: float | None) -> str:
    """
    >>> _ms(0.0123), _ms(2.5)
    ('12 ms', '2.5 s')
    """
    if seconds is None:
        return "–"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1000:.2g} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
