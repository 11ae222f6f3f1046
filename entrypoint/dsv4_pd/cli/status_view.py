"""`status --watch` as a terminal shows it: pure, from the ops port's documents to something rich can draw."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dsv4_pd.run.console.live import progress_table
from dsv4_pd.run.ops.live import rates
from dsv4_pd.run.states import SERVING

WINDOW_S = 6.0  # the engines add to their token counters at intervals of their own
_EVENTS = 8


def view(status: Mapping[str, Any], readings: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Everything; `readings` are /load documents, oldest first."""
    parts: list[RenderableType] = [progress_table(dict(status))]
    if status.get("state") in SERVING and readings:
        parts.append(Panel(_load(status, readings), title="load", title_align="left", border_style="dim"))
    if cards := _cards(status):
        parts.append(Panel(cards, title="GPU memory", title_align="left", border_style="dim"))
    parts.append(Panel(_events(status), title="last events", title_align="left", border_style="dim"))
    return Group(*parts)


def _load(status: Mapping[str, Any], readings: Sequence[Mapping[str, Any]]) -> RenderableType:
    now = readings[-1]
    speed = rates(window_start(readings), now)
    table = Table(box=None, pad_edge=False, expand=False)
    for name in ("role", "running", "waiting", "tokens/s", "prompt tokens/s", "KV in use", "restarts"):
        table.add_column(name, justify="left" if name == "role" else "right")
    for name, role in now["roles"].items():
        restarts = str(status["roles"].get(name, {}).get("restarts", ""))
        if role is None:
            table.add_row(name, "silent", "", "", "", "", restarts)
            continue
        made = speed.get(name, {})
        kv = "" if role["kv_use"] is None else f"{100 * role['kv_use']:.1f} %"
        table.add_row(name, f"{role['running']:.0f}", f"{role['queued']:.0f}", f"{made.get('output_tokens', 0):,.0f}",
                      f"{made.get('prompt_tokens', 0):,.0f}", kv, restarts)  # fmt: skip
    return Group(table, Text(_lines(status, now), style="dim"))


def _lines(status: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    link, canary = now["link"], status.get("canary") or {}
    speed = (
        "not measured yet" if link["bytes_per_s"] is None else f"{link['bytes_per_s'] / 1e9:.3f} GB/s while it moves"
    )
    proof = canary.get("proved_s_ago")
    ago = "never" if proof is None else f"{proof:.0f} s ago"
    return f"KV link: {link['transfers']:,.0f} caches, {link['bytes'] / 1e9:.2f} GB, {speed}   path proved: {ago}"


def window_start(readings: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The newest reading that is a window older than the last one, or the oldest.

    >>> window_start([{"time": 0}, {"time": 5}, {"time": 12}])
    {'time': 5}
    """
    end = readings[-1]["time"]
    return next((one for one in reversed(readings) if end - one["time"] >= WINDOW_S), readings[0])


def _cards(status: Mapping[str, Any]) -> RenderableType | None:
    table = Table(box=None, pad_edge=False, show_header=False)
    cards = [(name, card) for name, role in status.get("roles", {}).items() for card in role.get("gpu_memory") or ()]
    for name, card in cards:
        share = card["used_gb"] / card["total_gb"]
        bar = "█" * round(24 * share) + "░" * (24 - round(24 * share))
        table.add_row(name, str(card["uuid"])[:12], bar, f"{card['used_gb']:.1f} / {card['total_gb']:.1f} GB")
    return table if cards else None


def _events(status: Mapping[str, Any]) -> RenderableType:
    lines = [_event(event) for event in (status.get("events") or [])[-_EVENTS:]]
    return Text("\n".join(reversed(lines)) or "none yet")


def _event(event: Mapping[str, Any]) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(event["time"]))
    return f"{moment}  {event['from']} → {event['to']}: {event['reason']}"
