"""`dsv4-pd status`: a running appliance as its ops port describes it."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from dsv4_pd.console.live import progress_table
from dsv4_pd.errors import ApplianceError


def default_url(environ: Any = os.environ) -> str:
    """The ops port on this machine."""
    return f"http://127.0.0.1:{environ.get('DSV4_OPS_PORT') or 8001}"


@click.command("status")
@click.option("--url", default=default_url, show_default="http://127.0.0.1:$DSV4_OPS_PORT", help="Its ops port.")
@click.option("--watch", is_flag=True, help="Redraw every second until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON as it is.")
def command(url: str, watch: bool, as_json: bool) -> None:
    """Show state, roles, phases and restarts of a running appliance."""
    if as_json:
        click.echo(json.dumps(fetch(url), indent=2))
        return
    terminal = Console()
    if not watch:
        terminal.print(progress_table(fetch(url)))
        return
    with Live(console=terminal, auto_refresh=False) as live:
        while True:
            live.update(progress_table(fetch(url)), refresh=True)
            time.sleep(1)


def fetch(url: str) -> dict[str, Any]:
    """The body of /status, whatever its status code: body and code agree, and the body says more.

    Raises:
        ApplianceError: when nothing answers there.
    """
    try:
        with urllib.request.urlopen(f"{url}/status", timeout=5) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    except (OSError, ValueError) as error:
        raise ApplianceError(
            f"no appliance answers at {url} ({error}); start one with `dsv4-pd serve`, or give its ops port with --url"
        ) from error
    data: dict[str, Any] = json.loads(body)
    return data
