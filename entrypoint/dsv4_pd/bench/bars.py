"""How a run stands beside public figures: config/bars.toml, on the same kind of card and the same model only."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsv4_pd.bench.results import Run
from dsv4_pd.plan.disk.paths import share_dir

_NEAR = 2.0  # a prompt of half to twice the tokens is read at much the same rate


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the table; its comments say what each part means."""

    source: str
    date: str
    setup: str
    card: str
    cards: int
    layout: str
    model: str
    what: str
    figures: tuple[tuple[float, float], ...]


def read(path: Path | None = None) -> tuple[Bar, ...]:
    """The table; an unknown key is a programming error and raises TypeError."""
    text = (path or share_dir() / "config" / "bars.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)["bar"]
    return tuple(Bar(**{**row, "figures": tuple((at, value) for at, value in row["figures"])}) for row in rows)


def card_kind(name: str) -> str:
    """Editions are one kind but for Max-Q, which has half the power.

    >>> card_kind("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"), card_kind("NVIDIA H200")
    ('RTX PRO 6000 Max-Q', 'NVIDIA H200')
    """
    if "RTX PRO 6000" not in name:
        return name
    return "RTX PRO 6000 Max-Q" if "Max-Q" in name else "RTX PRO 6000"


def model_kind(name: str) -> str | None:
    """The catalogue's word for a model, by any of its names; None: no figures are known of it.

    >>> model_kind("deepseek-ai/DeepSeek-V4-Flash-0731"), model_kind("DeepSeek-V4.1-Flash"), model_kind("/demo/model")
    ('flash', 'v4.1-flash', None)
    """
    low = name.lower()
    if "v4.1-flash" in low:
        return "v4.1-flash"
    return "flash" if "v4-flash" in low or low.startswith("flash-") else None


def lines(run: Run, bars: Sequence[Bar]) -> list[str]:
    """What to tell of a run; one line that says why, where nothing can be compared."""
    about = run.head["appliance"]
    gpus = (about.get("machine") or {}).get("gpus") or []
    kinds = {card_kind(gpu["name"]) for gpu in gpus}
    here = ", ".join(sorted(kinds)) or "no GPU"
    fitting = [bar for bar in bars if kinds == {bar.card}]
    if not fitting:
        return [f"public figures: not comparable, they are of {_cards(bars)} and this host has {here}"]
    name = str((about.get("weights") or {}).get("name") or about.get("model") or "")
    fitting = [bar for bar in fitting if bar.model == model_kind(name)]
    if not fitting:
        return [f"public figures: not comparable, none is of the model {name!r}"]
    used = sum(len(role.get("gpus", ())) for role in (about.get("placement") or {}).values()) or len(gpus)
    found = [line for point in run.points for bar in fitting for line in _beside(point, bar, used)]
    return found or ["public figures: not comparable, none is of this many cards and requests at once"]


def _cards(bars: Sequence[Bar]) -> str:
    return ", ".join(sorted({bar.card for bar in bars}))


def _beside(point: Mapping[str, Any], bar: Bar, cards: int) -> Iterator[str]:
    """One line for each figure that the point can be held against."""
    times, rest = divmod(cards, bar.cards)
    if rest or times < 1 or "concurrency" not in point:
        return
    for at, value in bar.figures:
        own = _decode(point, at, times) if bar.what == "decode" else _prefill(point, at, times)
        if own is None:
            continue
        wanted = value * times
        scaled = "" if times == 1 else f", {times} times {bar.cards} cards: an extrapolation"
        word = "below" if own < wanted else "at or above"
        yield (
            f"{point['name']}: {own:,.0f} {bar.what} tokens/s, {own / wanted:.0%} of {wanted:,.0f} ({bar.source}, "
            f"{bar.date}; {bar.layout}, {bar.setup}{scaled}): {word}"
        )


def _decode(point: Mapping[str, Any], at: float, times: int) -> float | None:
    """Output tokens/s at as many requests for each group of cards; a whole group for the rest would be idle."""
    return float(point["output_tokens_per_s"]) if point["concurrency"] == at * times else None


def _prefill(point: Mapping[str, Any], at: float, times: int) -> float | None:
    """Tokens/s of one prompt alone, which one group of cards reads: never scaled."""
    size, ttft = point["input_tokens"], (point.get("ttft") or {}).get("p50")
    near = at / _NEAR <= size <= at * _NEAR
    return size / ttft if times == 1 and point["concurrency"] == 1 and near and ttft else None
