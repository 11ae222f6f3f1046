"""`dsv4-pd health`, for the help listing; `__main__` runs it without this module, because it must be cheap."""

from __future__ import annotations

import click

from dsv4_pd.run import health


@click.command("health")
@click.argument("file", required=False)
def command(file: str | None) -> int:
    """Exit 0 while the appliance serves, 1 otherwise; prints state and reason."""
    return health.main([file] if file else [])
