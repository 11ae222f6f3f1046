"""`dsv4-pd plan`: everything that `serve` would do, and nothing done."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from dsv4_pd.cli import captured
from dsv4_pd.host.machine import Live
from dsv4_pd.plan import show
from dsv4_pd.plan.survey import survey, survey_facts


@click.command("plan")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--replay", type=captured.FOLDER, help="Plan for the machine captured in this folder.")
@click.option(
    "--facts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plan for the machine whose facts are in this file.",
)
def command(as_json: bool, replay: Path | None, facts: Path | None) -> None:
    """Print settings, facts, placement, and exactly what `serve` would start: argv, environment, files.

    Starts nothing. Secrets are shown as <secret>, values that each start draws for itself as <per run>.
    """
    if replay and facts:
        raise click.UsageError("--replay and --facts are mutually exclusive")
    if facts:
        situation = survey_facts(os.environ, captured.facts_of(facts))
    else:
        situation = survey(os.environ, captured.machine_of(replay) if replay else Live())
    click.echo(json.dumps(show.as_dict(situation), indent=2) if as_json else show.as_text(situation))
