"""`dsv4-pd migrate`: the settings that say what an older deployment's systemd units say."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.plan.migrate import report, unit, unit_text
from dsv4_pd.plan.migrate.translate import Migration, translate
from dsv4_pd.settings.redact import Redactor


@click.command("migrate")
@click.argument("units", nargs=-1, required=True, metavar="UNIT...")
@click.option("--root", default="/", type=click.Path(path_type=Path), help="Root directory of the paths in the units.")
@click.option("--key-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the API key into this file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(units: tuple[str, ...], root: Path, key_file: Path | None, as_json: bool) -> None:
    """Read systemd units (a file, or a name below /etc/systemd/system) and environment files; print a .env file.

    Every flag, variable and directive of the units is accounted for in its comments. Nothing is changed on this
    machine, and no secret is printed: --key-file writes the API key, alone, into a file of mode 0600.
    """
    texts = [name for name in units if is_environment_file(name)]
    given: dict[str, str] = {}
    for name in texts:
        given |= unit_text.environment(Path(name).read_text(encoding="utf-8", errors="replace"))[0]
    found = translate([unit.read(name, root) for name in units if name not in texts], given, root)
    if key_file and found.key is not None:
        write_key(key_file, found.key)
    click.echo(_json(found) if as_json else report.env_file(found, str(key_file) if key_file else None), nl=as_json)
    if found.problems:
        raise SettingsError(found.problems)


def is_environment_file(name: str) -> bool:
    """Whether an argument is a file of variables: it is there, and has no sections as a unit has."""
    path = Path(name)
    if path.suffix == ".service" or not path.is_file():
        return False
    return not any(item.section for item in unit_text.read(path.read_text(encoding="utf-8", errors="replace")))


def write_key(path: Path, key: str) -> None:
    """A new file that its owner alone can read.

    Raises:
        SettingsError: it is there already, with something else in it.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        if path.read_text(encoding="utf-8", errors="replace").rstrip("\r\n") == key:
            return
        problem = Problem("--key-file", f"{path}, which holds something else", "a new file", "choose another name")
        raise SettingsError([problem]) from error
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(key + "\n")


def _json(found: Migration) -> str:
    text = json.dumps(
        {
            "settings": dict(found.settings),
            "kept": dict(found.kept),
            "key_from": found.key_origin or None,
            "accounts": [asdict(one) for one in found.accounts],
            "notes": list(found.notes),
            "problems": [str(problem) for problem in found.problems],
        },
        indent=2,
    )
    return Redactor(sorted(found.secrets)).text(text)
