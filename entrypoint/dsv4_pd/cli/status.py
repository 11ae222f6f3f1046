"""`dsv4-pd status`: a running appliance as its ops port describes it."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from dsv4_pd.cli.status_view import WINDOW_S, view
from dsv4_pd.client import where
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.run.states import SERVING

_TICK_S = 1.0


def default_url() -> str:
    """The ops port on this machine, where the same settings put it."""
    return where.ops_url(os.environ)


@click.command("status")
@click.option(
    "--url", default=default_url, show_default="http://$DSV4_OPS_HOST:$DSV4_OPS_PORT", help="URL of its ops port."
)
@click.option("--watch", is_flag=True, help="Redraw every second until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the raw JSON.")
def command(url: str, watch: bool, as_json: bool) -> None:
    """Show state, roles, phases, load, restarts and the last events of a running appliance."""
    ops = Ops(url)
    if as_json:
        click.echo(json.dumps(ops.status(), indent=2))
        return
    readings: deque[dict[str, Any]] = deque(maxlen=int(2 * WINDOW_S / _TICK_S))
    terminal = Console()
    if not watch:
        terminal.print(view(_look(ops, readings), readings))
        return
    with Live(console=terminal, auto_refresh=False, screen=terminal.is_terminal) as live:
        while True:
            live.update(_frame(ops, readings), refresh=True)
            time.sleep(_TICK_S)


def _look(ops: Ops, readings: deque[dict[str, Any]]) -> dict[str, Any]:
    """The status; the load is read only while requests are served."""
    status = ops.status()
    if status.get("state") in SERVING:
        readings.append(ops.live())
    return status


def _frame(ops: Ops, readings: deque[dict[str, Any]]) -> Any:
    """One picture; an appliance that is away for a while does not end the watch."""
    try:
        return view(_look(ops, readings), list(readings))
    except (ApplianceError, ValueError) as error:
        readings.clear()
        return Text(str(error), style="red")
