"""`dsv4-pd support-bundle`: one archive with what somebody needs to help."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import click

from dsv4_pd import __version__
from dsv4_pd.cli.doctor import around, diagnose
from dsv4_pd.cli.plan import as_dict
from dsv4_pd.cli.plan import as_text as plan_text
from dsv4_pd.doctor import support_bundle
from dsv4_pd.doctor.catalogue import examine
from dsv4_pd.doctor.report import as_text, as_values
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.capture import capture, to_json
from dsv4_pd.host.machine import CAPTURE_FILE, Live
from dsv4_pd.host.read import read_facts
from dsv4_pd.plan import boot, folders
from dsv4_pd.settings.load import load as load_settings
from dsv4_pd.settings.redact import Redactor, known_secrets
from dsv4_pd.settings.schema import Settings


@click.command("support-bundle")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File to write (.tar.gz).")
@click.option("--no-redact", is_flag=True, help="Leave keys, tokens and UUIDs in. For your own eyes only.")
def command(output: Path | None, no_redact: bool) -> None:
    """Pack report, plan, facts, environment and logs. Keys and tokens are masked, serials and UUIDs replaced."""
    settings = load_settings()
    target = output or Path(f"dsv4-pd-support-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.tar.gz")
    if target.exists():
        raise ApplianceError(f"{target} exists: choose another name with --output")
    known = [settings.api_key.get_secret_value()] if settings.api_key else []
    redactor = None if no_redact else Redactor(known_secrets(os.environ, known))
    files = collect(settings, target.parent / f".{target.name}.capture", real=no_redact)
    size = support_bundle.pack(target, files, redactor)
    click.echo(f"wrote {target} ({size / 1e6:.1f} MB, {len(files)} files); look through it before you pass it on")


def collect(settings: Settings, scratch: Path, *, real: bool) -> dict[str, bytes]:
    """Name → content. The scrubbed capture replaces UUIDs, and the report and plan are made from it."""
    try:
        capture(Live(), scratch)
        machine = (scratch / CAPTURE_FILE).read_bytes()
        facts = read_facts() if real else read_facts(scratch)
    finally:
        (scratch / CAPTURE_FILE).unlink(missing_ok=True)
        if scratch.is_dir():
            scratch.rmdir()
    found = examine(diagnose(settings, facts, around))
    texts = {
        "version.txt": f"dsv4-pd {__version__}\n",
        "doctor.txt": as_text(found) + "\n",
        "doctor.json": json.dumps(as_values(found), indent=2) + "\n",
        "facts.json": to_json(facts),
        "environment.txt": support_bundle.environment(os.environ),
    }
    try:
        plan = boot.make_plan(facts)
        texts |= {"plan.txt": plan_text(plan) + "\n", "plan.json": json.dumps(as_dict(plan), indent=2) + "\n"}
    except ApplianceError as error:
        texts["plan.txt"] = f"{error}\n"
    own = {name: text.encode() for name, text in texts.items()} | {CAPTURE_FILE: machine}
    return own | support_bundle.run_files(folders.resolve(settings, os.environ).run)
