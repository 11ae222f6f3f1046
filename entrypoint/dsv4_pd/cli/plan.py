"""`dsv4-pd plan`: everything that `serve` would do, and nothing done."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from dsv4_pd.cli import captured
from dsv4_pd.doctor import preflight
from dsv4_pd.errors import ApplianceError, Problem, SettingsError
from dsv4_pd.host.machine import Live
from dsv4_pd.plan import show
from dsv4_pd.plan.resolve.ask import Resolved, flags_of, resolve
from dsv4_pd.plan.survey import survey, survey_facts


@click.command("plan")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--replay", type=captured.FOLDER, help="Plan for the machine captured in this folder.")
@click.option(
    "--facts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plan for the machine whose facts are in this file.",
)
@click.option("--resolve", "resolving", is_flag=True, help="Have engine and router resolve their command lines.")
def command(as_json: bool, replay: Path | None, facts: Path | None, resolving: bool) -> None:
    """Print settings, facts, placement, and exactly what `serve` would start: argv, environment, files.

    Starts nothing. Secrets are shown as <secret>, values generated at each start as <per run>.
    """
    if replay and facts:
        raise click.UsageError("--replay and --facts are mutually exclusive")
    if facts:
        situation = survey_facts(os.environ, captured.facts_of(facts))
    else:
        situation = survey(os.environ, captured.machine_of(replay) if replay else Live())
    planned = preflight.planned(situation)
    answers = resolve(planned) if resolving else ()
    if as_json:
        found = {answer.name: {"values": dict(answer.values), "error": answer.error} for answer in answers}
        click.echo(json.dumps(show.as_dict(situation) | ({"resolved": found} if resolving else {}), indent=2))
    else:
        click.echo(show.as_text(situation))
        lines = [answer.line(flags_of(planned, answer.name)) for answer in answers]
        click.echo("\n".join(["", "resolved by the programs themselves", *("  " + line for line in lines)]) * resolving)
    _refuse(answers)


def _refuse(answers: tuple[Resolved, ...]) -> None:
    """End with 2 where a program refuses its command line, with 1 where one is not here to be asked."""
    refused = [
        Problem(answer.name, str(answer.error), "a command line that it takes", "change the setting that it names")
        for answer in answers
        if answer.error and not answer.absent
    ]
    if refused:
        raise SettingsError(refused)
    if absent := [f"{answer.name}: {answer.error}" for answer in answers if answer.absent]:
        raise ApplianceError("\n".join(absent))
