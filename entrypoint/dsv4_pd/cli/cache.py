"""`dsv4-pd cache`: the compiled kernels: what is there, carry them to like hosts, and compile what is still missing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from dsv4_pd.cli.status import default_url
from dsv4_pd.client import where
from dsv4_pd.client.api import Api
from dsv4_pd.client.ops import Ops
from dsv4_pd.client.warm import Warmed, asked_of, warm
from dsv4_pd.errors import ApplianceError
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.disk.paths import image_key
from dsv4_pd.run.cache import archive, summary
from dsv4_pd.run.states import SERVING
from dsv4_pd.settings.load import load
from dsv4_pd.verify.prompts import filler

_url = click.option(
    "--url", default=default_url, show_default="http://$DSV4_OPS_HOST:$DSV4_OPS_PORT", help="URL of its ops port."
)
_file = click.Path(dir_okay=False, path_type=Path)


@click.group("cache")
def command() -> None:
    """Inspect compiled kernels, and spare a first start compiling them."""


def folder() -> Path:
    """The cache folder of the same settings."""
    return folders.resolve(load(os.environ), os.environ).cache


@command.command("status")
@_url
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(url: str, as_json: bool) -> None:
    """Show the cache by compiler and kernel: from the image, compiled here or imported; sizes and seconds.

    Also what a running appliance has compiled and reused since it started.
    """
    cache = folder()
    table, running = summary.rows(cache), _running(url)
    if as_json:
        click.echo(json.dumps(summary.as_values(cache, table) | {"running": running}, indent=2))
        return
    click.echo(f"{cache}: {sum(row.entries for row in table)} entries, {sum(row.bytes for row in table) / 1e6:.1f} MB")
    for row in table:
        origins = ", ".join(f"{row.origins[name]} {name}" for name in summary.ORIGINS if name in row.origins)
        took = f"  {row.seconds:.1f} s" if row.seconds else ""
        click.echo(f"  {row.system:<10} {row.kernel:<60} {row.entries:>3}  {row.bytes / 1e6:>7.2f} MB  {origins}{took}")
    for name in summary.aside(cache):
        click.echo(f"  moved aside: {name}")
    if running:
        found = sum(row["count"] for row in running["from_cache"])
        click.echo(f"since the start: {running['since_start']} compiled in {running['seconds']:.1f} s, "
                   f"{running['since_ready']} of them while ready; {found} found compiled")  # fmt: skip
        for row in running["kernels"]:
            name = f"{row['member']:<10} {row['system']:<10} {row['kernel']:<60}"
            click.echo(f"  {name} {row['count']:>3}  {row['seconds']:.1f} s")


def _running(url: str) -> dict[str, Any] | None:
    """What the appliance says of compiles; None where none answers, or one of an older release."""
    try:
        found = Ops(url).status().get("compiles")
    except (ApplianceError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@command.command("export")
@click.argument("file", type=_file)
def export(file: Path) -> None:
    """Write every intact kernel to FILE (.tar.gz), for hosts with the same cards and the same image."""
    try:
        count = archive.export(folder(), file, image_key())
    except OSError as error:
        raise ApplianceError(f"{file}: {error.strerror}") from error
    click.echo(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB, {count} kernels); it is code: keep it as the image")


@command.command("import")
@click.argument("file", type=_file)
def load_file(file: Path) -> None:
    """Add the kernels that the cache lacks from FILE. The engine runs this code: use only files from your own hosts."""
    try:
        with file.open("rb") as source:
            added, known = archive.load(source, folder(), image_key())
    except OSError as error:
        raise ApplianceError(f"{error.filename or file}: {error.strerror}") from error
    click.echo(f"added {added} kernels, {known} were there already")


@command.command("warm")
@_url
@click.option("--api-url", default=None, help="URL of its API; default: the ops port's host, port $DSV4_PORT or 8000.")
@click.option(
    "--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with its API key."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line per class.")
@click.pass_context
def warm_up(ctx: click.Context, url: str, api_url: str | None, api_key_file: Path | None, as_json: bool) -> None:
    """Send one request of each class to a serving appliance and show what each made it compile.

    Exit 0 if all were answered, 1 otherwise.
    """
    ops = Ops(url)
    found = ops.status()
    if found.get("state") not in SERVING:
        raise ApplianceError(f"state {found.get('state')}: requests are not served yet; wait for `dsv4-pd health`")
    api = Api(
        api_url or where.api_url(ops.url, os.environ), str(found.get("model")), where.api_key(os.environ, api_key_file)
    )
    results = []
    for one in warm(api, ops, asked_of(found), filler):
        results.append(one)
        click.echo(json.dumps(_values(one)) if as_json else _line(one))
    if not as_json:
        compiled = sum(len(one.compiled) for one in results)
        spent = sum(one.compile_seconds for one in results)
        click.echo(f"{len(results)} classes of requests: {compiled} kernels compiled, {spent:.1f} s")
    ctx.exit(int(any(one.failure for one in results)))


def _line(one: Warmed) -> str:
    what = one.failure or (f"compiled {', '.join(one.compiled)}" if one.compiled else "nothing compiled")
    return f"{one.kind.name:<32} {one.seconds:>7.2f} s  {what}"


def _values(one: Warmed) -> dict[str, Any]:
    return {
        "class": one.kind.name,
        "count": one.kind.count,
        "prompt_tokens": one.kind.prompt_tokens + one.kind.fresh_tokens,
        "seconds": round(one.seconds, 3),
        "compiled": list(one.compiled),
        "compile_seconds": one.compile_seconds,
        "failure": one.failure,
    }
