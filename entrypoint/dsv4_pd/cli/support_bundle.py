"""`dsv4-pd support-bundle`: one archive with what somebody needs to help."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from dsv4_pd.doctor import support_bundle
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.capture import invented_uuids, scrub
from dsv4_pd.host.machine import Live, Recorder, Replay
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan.survey import survey
from dsv4_pd.settings.redact import Redactor, known_secrets


@click.command("support-bundle")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File to write (.tar.gz).")
@click.option("--no-redact", is_flag=True, help="Do not redact keys, tokens and UUIDs; do not share such a bundle.")
def command(output: Path | None, no_redact: bool) -> None:
    """Collect report, plan, facts, environment and logs. Keys and tokens are masked, serials and UUIDs replaced."""
    target = output or Path(f"dsv4-pd-support-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.tar.gz")
    if target.exists():
        raise ApplianceError(f"{target} exists: choose another name with --output")
    recorder = Recorder(Live())
    situation = survey(os.environ, recorder)
    machine = recorder.record if no_redact else scrub(recorder.record)
    files = support_bundle.collect(situation, machine, facts_of(Replay(machine)))
    redactor = None
    if not no_redact:
        redactor = Redactor(known_secrets(os.environ, situation.settings.secrets))
        uuids = (gpu["uuid"] for gpu in recorder.record["nvml"].get("gpus", []))
        files = support_bundle.renamed(files, invented_uuids(uuids))
    size = support_bundle.pack(target, files, redactor)
    click.echo(f"wrote {target} ({size / 1e6:.1f} MB, {len(files)} files); review it before you share it")
