"""Machines given on the command line: what `doctor --capture` wrote, or one line that says why it can't be read."""

from __future__ import annotations

from pathlib import Path

import click

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.host import capture
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import Machine

FOLDER = click.Path(file_okay=False, path_type=Path)


def machine_of(folder: Path) -> Machine:
    """The machine captured in a folder.

    Raises:
        SettingsError: the folder holds no capture, or a damaged one.
    """
    try:
        return capture.open_capture(folder)
    except ValueError as error:
        raise _unreadable("--replay", folder, error) from error


def facts_of(file: Path) -> HostFacts:
    """The facts in a file.

    Raises:
        SettingsError: it can't be read, or is no facts file.
    """
    try:
        return capture.from_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable("--facts", file, error) from error


def _unreadable(option: str, path: Path, error: Exception) -> SettingsError:
    reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0]
    remedy = "write one with `dsv4-pd doctor --capture DIR`"
    return SettingsError([Problem(option, f"{str(path)!r}: {reason}", "what `doctor --capture` writes", remedy)])
