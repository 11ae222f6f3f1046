"""The run folder's files: written before a start, removed after the end."""

from __future__ import annotations

import os
import secrets
import shutil

from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.programs.program import ConfigFile


def write(files: tuple[ConfigFile, ...]) -> None:
    """Write each file with its mode from the first byte on, atomically."""
    for file in files:
        fresh = file.path.with_name(file.path.name + ".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode), "w", encoding="utf-8") as out:
            out.write(secrets.token_urlsafe(32) if file.drawn else file.text)
        fresh.replace(file.path)


def clean(paths: Paths) -> None:
    """Remove what a run left in its folder, logs excepted: they explain how it ended."""
    for path in paths.run.iterdir():
        if (path.is_file() and path.name != "lock") or path.is_socket():
            path.unlink(missing_ok=True)
    for folder in (paths.plugin_records, paths.temp):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
