"""`dsv4-pd download`: fetch the model ahead of the first start, or check the one that is here."""

from __future__ import annotations

import os

import click

from dsv4_pd.errors import ApplianceError, Problem
from dsv4_pd.plan import model_files
from dsv4_pd.run import download
from dsv4_pd.settings.load import load as load_settings


@click.command("download")
@click.option("--check", is_flag=True, help="Download nothing; check names and sizes of the local copy.")
@click.option("--hashes", is_flag=True, help="Also verify the SHA-256 of each large file.")
def command(check: bool, hashes: bool) -> None:
    """Download DSV4_MODEL at DSV4_MODEL_REVISION. An interrupted download resumes when it is run again."""
    settings = load_settings(os.environ)
    model, revision = settings.model, settings.model_revision
    here = model_files.find(model, revision, os.environ)
    if check or (here is not None and str(here) == model):
        if here is None:
            raise ApplianceError(
                [Problem("DSV4_MODEL", f"{model!r}, not on this machine", "a model", "dsv4-pd download")]
            )
        folder = download.verify(here)
    else:
        folder = download.fetch(model, revision, os.environ, click.echo)
    if hashes and (wrong := download.check_hashes(folder, click.echo)):
        raise ApplianceError(
            [Problem(str(folder), text, "what the Hub has", "delete it and run it again") for text in wrong]
        )
    size = model_files.inspect(folder).total_bytes or 0
    click.echo(f"{folder}: complete, {size / 1e9:.1f} GB of tensors")
    if folder.parent.name == "snapshots" and revision != folder.name:
        click.echo(f"pin it: DSV4_MODEL_REVISION={folder.name}")
