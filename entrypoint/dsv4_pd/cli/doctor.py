"""`dsv4-pd doctor`: every check on this machine, or on a captured one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from dsv4_pd.cli import captured
from dsv4_pd.doctor.catalogue import examine, worst
from dsv4_pd.doctor.report import as_text, as_values
from dsv4_pd.host.capture import save
from dsv4_pd.host.machine import Live
from dsv4_pd.plan.survey import survey


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", "-q", is_flag=True, help="Print only warnings and failures.")
@click.option("--link", "with_link", is_flag=True, help="Also transfer data over NIXL, as the two roles will.")
@click.option(
    "--capture", "capture_to", type=captured.FOLDER, help="Capture the host data in this folder, scrubbed, and exit."
)
@click.option(
    "--replay", type=captured.FOLDER, help="Diagnose the machine captured in this folder instead of this one."
)
@click.pass_context
def command(
    ctx: click.Context, as_json: bool, quiet: bool, with_link: bool, capture_to: Path | None, replay: Path | None
) -> None:
    """Diagnose this machine: what is wrong, why, and how to fix it. Exit 0: healthy, 1: warnings, 2: failures."""
    if capture_to:
        click.echo(f"wrote {save(Live(), capture_to)}")
        return
    situation = survey(os.environ, captured.machine_of(replay) if replay else Live())
    found = examine(situation)
    if with_link:
        from dsv4_pd.doctor.link.finding import link_finding

        found = (*found, link_finding(situation))
    if as_json:
        click.echo(json.dumps({"exit": worst(found), "checks": as_values(found)}, indent=2))
    else:
        click.echo(as_text(found, everything=not quiet))
    ctx.exit(worst(found))
