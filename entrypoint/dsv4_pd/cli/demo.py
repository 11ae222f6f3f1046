"""`dsv4-pd demo`."""

from __future__ import annotations

import os

import click

from dsv4_pd.run import serve


@click.command("demo")
def command() -> int:
    """Run the whole appliance on the CPU with a tiny model: the same as DSV4_PROFILE=demo-cpu dsv4-pd serve."""
    return serve.run({**os.environ, "DSV4_PROFILE": "demo-cpu"})
