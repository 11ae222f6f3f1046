"""`dsv4-pd version`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from dsv4_pd import __version__
from dsv4_pd.plan.disk.paths import venvs_dir
from dsv4_pd.settings.schema import Settings

_PRINT = "import importlib.metadata as m, sys\nfor n in sys.argv[1:]:\n print(n, m.version(n))"


@click.command("version")
def command() -> None:
    """Print the versions of the appliance, the engine and the router."""
    click.echo(f"dsv4-pd {__version__}")
    click.echo(f"python {sys.version.split()[0]}")
    engine = Settings.model_fields["engine_python"].get_default(call_default_factory=True)
    for python, packages in (
        (engine, ("sglang", "torch", "nixl")),
        (_sibling(engine, "router"), ("sglang-router",)),
        (_sibling(engine, "smg"), ("smg",)),
    ):
        click.echo(_versions(python, packages))


def _sibling(engine: Path, name: str) -> Path:
    return venvs_dir(engine) / name / "bin" / "python"


def _versions(python: Path, packages: tuple[str, ...]) -> str:
    if not python.exists():
        return f"{packages[0]} not installed ({python} does not exist)"
    done = subprocess.run([str(python), "-c", _PRINT, *packages], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1:]  # the package that is missing, in the interpreter's words
    return "\n".join(filter(None, [done.stdout.strip(), *last]))
