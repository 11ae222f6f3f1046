"""`dsv4-pd download`: fetch the model ahead of the first start, or check the one that is here."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import click

from dsv4_pd.errors import ApplianceError, Problem
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.disk.paths import models_dir
from dsv4_pd.plan.model import files as model_files
from dsv4_pd.plan.shipped import catalogue
from dsv4_pd.run.download import hashes as hashes_of
from dsv4_pd.run.download import order
from dsv4_pd.run.download.causes import Failed
from dsv4_pd.run.download.job import Job, Task
from dsv4_pd.run.download.patience import Stopped
from dsv4_pd.run.download.progress import Progress
from dsv4_pd.settings import hub_environ
from dsv4_pd.settings.load import load as load_settings
from dsv4_pd.settings.schema import Settings

_TELL_S = 5.0


@click.command("download")
@click.option("--check", is_flag=True, help="Download nothing; check names and sizes of the local copy.")
@click.option("--hashes", is_flag=True, help="Also verify the hash of every file, even if it was verified before.")
def command(check: bool, hashes: bool) -> None:
    """Download DSV4_MODEL at DSV4_MODEL_REVISION. An interrupted download resumes when it is run again."""
    for name in hub_environ.blanks(os.environ):
        del os.environ[name]  # before the library reads it
    settings = catalogue.resolve(load_settings(os.environ), catalogue.read_all(models_dir()))
    model, revision = settings.model, settings.model_revision
    here = model_files.find(model, revision, os.environ)
    if check or model_files.is_folder(model):
        if here is None:
            raise ApplianceError(
                [Problem("DSV4_MODEL", f"{model!r}, not on this machine", "a model", "dsv4-pd download")]
            )
        folder = _whole(here)
    else:
        folder = _fetch(settings)
    if hashes and (wrong := hashes_of.wrong(folder, click.echo)):
        raise ApplianceError(
            [Problem(str(folder), text, "what the Hub has", "delete it and run it again") for text in wrong]
        )
    size = model_files.inspect(folder).total_bytes or 0
    click.echo(f"{folder}: complete, {size / 1e9:.1f} GB of tensors")
    if folder.parent.name == "snapshots" and revision != folder.name:
        click.echo(f"pin it: DSV4_MODEL_REVISION={folder.name}")


def _whole(folder: Path) -> Path:
    """The folder, when names and sizes are what its index says.

    Raises:
        ApplianceError: naming every file that is missing, empty, dangling or short.
    """
    found = model_files.inspect(folder)
    if found.problems:
        raise ApplianceError([Problem(str(folder), text, "a whole file", "copy it again") for text in found.problems])
    return folder


def _fetch(settings: Settings) -> Path:
    """Fetch and check, with a line of progress every few seconds; Ctrl-C keeps what is there."""
    state = folders.resolve(settings, os.environ).state
    task = order.task(settings.model, settings.model_revision, os.environ, state, settings.download_stall_timeout)
    progress = Progress()
    job = order.job(task, os.environ, progress)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: job.stop())
    found: list[Path | BaseException] = []
    thread = threading.Thread(target=_run, args=(job, found), daemon=True)
    thread.start()
    click.echo(f"{task.asked.model} at {task.asked.revision}, from {task.asked.endpoint} into {task.store.base}")
    while thread.is_alive():
        thread.join(_TELL_S)
        if thread.is_alive():
            click.echo(progress.snapshot().words())
    return _ended(found[0], task)


def _run(job: Job, found: list[Path | BaseException]) -> None:
    try:
        found.append(job.run())
    except BaseException as error:  # told by the thread that waits
        found.append(error)


def _ended(result: Path | BaseException, task: Task) -> Path:
    if isinstance(result, Failed):
        raise result.cause.error([task.asked.problem(result)])
    if isinstance(result, Stopped):
        raise click.exceptions.Abort
    if isinstance(result, BaseException):
        raise result
    return result
