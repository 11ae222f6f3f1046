"""Plots as SVG text: axes, lines, points, shaded spans, a legend. Colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 16, 14, 44
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour class (`s0`, `s1`, ...); `marks` draws the points, `joined` the line between them."""

    name: str
    points: Sequence[Point]
    style: str
    joined: bool = True
    marks: bool = False
    notes: Sequence[str] = ()  # one at each point


@dataclass(frozen=True, slots=True)
class Axes:
    """What both axes mean and how far they reach; `log` is the vertical one."""

    x: str
    y: str
    x_range: Point
    y_range: Point
    log: bool = False
    x_text: Callable[[float], str] = field(default=lambda value: f"{value:g}")
    y_text: Callable[[float], str] = field(default=lambda value: f"{value:g}")


def plot(axes: Axes, series: Sequence[Series], spans: Sequence[Point] = (), span_name: str = "") -> str:
    """One plot; `spans` are shaded along the horizontal axis."""
    across, up = _scales(axes)
    parts = [_span(across, begin, end) for begin, end in spans]
    parts += _grid(axes, across, up)
    for one in series:
        parts += _draw(one, across, up)
    parts.append(_legend(series, span_name if spans else ""))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(axes.y)} over {escape(axes.x)}">'
        + "".join(parts)
        + "</svg>"
    )


def _scales(axes: Axes) -> tuple[Callable[[float], float], Callable[[float], float]]:
    (x0, x1), (y0, y1) = axes.x_range, axes.y_range
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(value: float) -> float:
        return _LEFT + width * (value - x0) / ((x1 - x0) or 1)

    def up(value: float) -> float:
        share = math.log(max(value, y0) / y0) / math.log(y1 / y0) if axes.log else (value - y0) / ((y1 - y0) or 1)
        return _TOP + height * (1 - share)

    return across, up


def _grid(axes: Axes, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    parts = []
    for value in ticks(*axes.x_range):
        x, label = across(value), axes.x_text(value)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{label}</text>')
    for value in decades(*axes.y_range) if axes.log else ticks(*axes.y_range):
        y, label = up(value), axes.y_text(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    middle = (_HEIGHT - _BOTTOM + _TOP) / 2
    parts.append(
        f'<text class="axis" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 7}" text-anchor="end">{escape(axes.x)}</text>'
    )
    parts.append(f'<text class="axis" transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">'
                 f"{escape(axes.y)}</text>")  # fmt: skip
    return parts


def _draw(one: Series, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    spots = [(across(x), up(y)) for x, y in one.points]
    parts = []
    if one.joined and spots:
        path = "".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(spots))
        parts.append(f'<path class="line {one.style}" d="{path}"/>')
    if one.marks:
        radius = 4 if one.joined else 1.7
        parts += [f'<circle class="dot {one.style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in spots]
    for note, (x, y) in zip(one.notes, spots, strict=False):
        parts.append(f'<text class="note {one.style}" x="{x + 7:.1f}" y="{y - 7:.1f}">{escape(note)}</text>')
    return parts


def _span(across: Callable[[float], float], begin: float, end: float) -> str:
    left, right = across(begin), across(end)
    width, height = max(right - left, 1.0), _HEIGHT - _TOP - _BOTTOM
    return f'<rect class="span" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" height="{height}"/>'


def _legend(series: Sequence[Series], span_name: str) -> str:
    entries = [(one.name, f'class="key {one.style}"') for one in series if one.name]
    entries += [(span_name, 'class="span"')] if span_name else []
    parts, x = [], float(_LEFT)
    for name, style in entries:
        parts.append(f'<rect {style} x="{x:.0f}" y="{_HEIGHT - 16}" width="11" height="11" rx="2"/>')
        parts.append(f'<text class="axis" x="{x + 16:.0f}" y="{_HEIGHT - 6}">{escape(name)}</text>')
        x += 34 + 6.6 * len(name)
    return "".join(parts)


def ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round values inside a range.

    >>> ticks(0, 10)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    raw = (high - low) / count or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """1, 3 and 10 of each power of ten inside a range.

    >>> decades(0.002, 0.2)
    [0.003, 0.01, 0.03, 0.1]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [round(factor * 10.0**power, 12) for power in powers for factor in (1, 3)]
    return [value for value in found if low <= value <= high]
