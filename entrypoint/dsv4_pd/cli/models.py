"""`dsv4-pd models`: what is known by name, and how each fits on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import click

from dsv4_pd.doctor.models import ModelHere, of_entry, of_settings
from dsv4_pd.host.machine import Live
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan.disk.paths import models_dir
from dsv4_pd.plan.model import files as model_files
from dsv4_pd.plan.shipped import catalogue


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """List the models that DSV4_MODEL knows by name, and how each fits this machine with the current settings."""
    known, facts = catalogue.read_all(models_dir()), facts_of(Live())
    lines = [of_entry(entry, os.environ, facts) for entry in known.values()]
    other = of_settings(os.environ)
    if as_json:
        found = {"models": [asdict(line) for line in lines], "other": other and asdict(other)}
        click.echo(json.dumps(found, indent=2))
        return
    told = [_text(line, known[line.name].description) for line in lines]
    told += [_text(other, "DSV4_MODEL, which is not in the catalogue")] if other else []
    click.echo("\n\n".join("\n".join(lines) for lines in told))


def _text(line: ModelHere, description: str) -> list[str]:
    size = "size not known" if line.weights_gb is None else f"{line.weights_gb} GB"
    block = f"{line.draft} inside" if line.draft else "no speculative block"
    if line.draft and line.experts == "nvfp4":
        block += ", which no kernel of this card drafts with beside NVFP4"
    marks = [mark for mark, set_ in (("default", line.default), ("on this machine", line.here)) if set_]
    marked = [f"({', '.join(marks)})"] if marks else []
    verdict = {True: "fits", False: "does not fit", None: "not judged"}[line.fits]
    return [
        f"{' '.join([line.name, *marked])}: {description}",
        *([] if model_files.is_folder(line.hub) else [f"  {line.hub} @ {line.revision or 'no revision pinned'}"]),
        f"  {size}, experts {line.experts or 'not known'}, {block}",
        f"  {verdict}: {line.why}",
        *([f"  not known: {'; '.join(line.unknown)}"] if line.unknown else []),
    ]
