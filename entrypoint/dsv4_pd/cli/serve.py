"""`dsv4-pd serve`."""

from __future__ import annotations

import os

import click

from dsv4_pd.run import serve


@click.command("serve")
def command() -> int:
    """Run the appliance in the foreground until it is stopped."""
    return serve.run(os.environ)
