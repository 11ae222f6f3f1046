"""`dsv4-pd verify`: certify a running appliance, with a receipt."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from dsv4_pd.cli.gathered import into
from dsv4_pd.cli.status import default_url
from dsv4_pd.client import where
from dsv4_pd.client.api import Api
from dsv4_pd.client.child import started
from dsv4_pd.client.ops import Ops
from dsv4_pd.errors import ApplianceError
from dsv4_pd.verify import catalogue, launches
from dsv4_pd.verify.base import Local, Options, Outcome, Subject
from dsv4_pd.verify.run import CheckRun, receipt, run, verdict


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The command's options."""

    url: str
    api_url: str | None
    api_key_file: Path | None
    as_json: bool
    receipt_file: Path | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    strict: bool
    count: int
    restart_command: str | None
    own: bool
    container: str | None
    bursts: int
    burst_size: int
    allow_restarts: int
    single_url: str | None
    start_single: bool | None
    listing: bool


_MARKS = {Outcome.PASS: ("pass", "green"), Outcome.FAIL: ("FAIL", "bold red"), Outcome.SKIP: ("skip", "yellow")}
_names = click.Choice(catalogue.NAMES)


@click.command("verify")
@click.option(
    "--url", default=default_url, show_default="http://$DSV4_OPS_HOST:$DSV4_OPS_PORT", help="URL of its ops port."
)
@click.option("--api-url", default=None, help="URL of its API; default: the ops port's host, port $DSV4_PORT or 8000.")
@click.option(
    "--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with its API key."
)
@click.option("--json", "as_json", is_flag=True, help="Print the receipt instead of text.")
@click.option(
    "--receipt",
    "receipt_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the receipt to this file.",
)
@click.option("--only", multiple=True, type=_names, help="Run only this check (repeatable).")
@click.option("--skip", multiple=True, type=_names, help="Skip this check (repeatable).")
@click.option("--strict", is_flag=True, help="Count a skipped check as a failure.")
@click.option(
    "--launches",
    "count",
    default=1,
    show_default=True,
    help="Number of launches to verify, with a restart between them.",
)
@click.option("--restart", "restart_command", help="Command that restarts it, such as 'docker restart dsv4-pd'.")
@click.option("--own", is_flag=True, help="Start an appliance from DSV4_* settings, verify it and stop it.")
@click.option("--container", help="Name of its container, whose restart policy is checked.")
@click.option("--bursts", default=3, show_default=True, help="Number of bursts in the empty-answer check.")
@click.option("--burst-size", default=8, show_default=True, help="Streams per burst.")
@click.option("--allow-restarts", default=0, show_default=True, help="Number of restarts to tolerate.")
@click.option("--single-url", help="API of a single-mode appliance with the same model, to compare answers with.")
@click.option(
    "--start-single/--no-start-single", default=None, help="Start one for the comparison (default on the demo)."
)
@click.option("--list", "listing", is_flag=True, help="List the checks and exit.")
@into(VerifyOptions, "asked")
def command(asked: VerifyOptions) -> int:
    """Check a running appliance from the outside in; exit 0 when nothing failed, 1 otherwise."""
    if asked.listing:
        for check in catalogue.CHECKS:
            click.echo(f"{check.name:<20} {check.title}")
        return 0
    begun = time.time()
    rounds, status, url = _own_launches(asked) if asked.own else _launches(asked)
    paper = receipt(rounds, status, url, begun)
    if asked.receipt_file:
        asked.receipt_file.write_text(json.dumps(paper, indent=1) + "\n", encoding="utf-8")
    _close(paper, asked, rounds)
    skips = asked.strict and any(a.result.verdict is Outcome.SKIP for answers in rounds for a in answers)
    return int(verdict(rounds) is not Outcome.PASS or skips)


def _launches(asked: VerifyOptions) -> tuple[list[tuple[CheckRun, ...]], dict[str, Any], str]:
    """Verify the running appliance, restarted between the rounds."""
    ops = Ops(asked.url)
    if asked.count > 1 and not asked.restart_command:
        raise click.UsageError("--launches needs --restart COMMAND (such as 'docker restart dsv4-pd') or --own")
    rounds = []
    for number in range(asked.count):
        if number and asked.restart_command:
            launches.restart(ops, asked.restart_command)
        rounds.append(_round(ops, asked, number))
    return rounds, ops.status(), ops.url


def _own_launches(asked: VerifyOptions) -> tuple[list[tuple[CheckRun, ...]], dict[str, Any], str]:
    """Start, verify, stop, as often as asked."""
    rounds: list[tuple[CheckRun, ...]] = []
    status: dict[str, Any] = {}
    for number in range(asked.count):
        with started({}) as running:
            ops = Ops(running.ops_url)
            rounds.append(_round(ops, replace(asked, api_url=running.api_url), number))
            status = ops.status()
    return rounds, status, "an appliance started for this"


def _round(ops: Ops, asked: VerifyOptions, number: int) -> tuple[CheckRun, ...]:
    """One launch's checks, reported as they finish."""
    terminal = Console(highlight=False, stderr=asked.as_json)
    if asked.count > 1:
        terminal.print(f"launch {number + 1} of {asked.count}")
    checks = catalogue.chosen(asked.only, asked.skip)
    subject = _subject(ops, asked, number)
    with terminal.status("…") if terminal.is_terminal else contextlib.nullcontext():
        return run(checks, subject, lambda answer: _tell(terminal, answer))


def _subject(ops: Ops, asked: VerifyOptions, seed: int) -> Subject:
    status = ops.status()
    about = status.get("about") or {}
    on_cpu = not (about.get("machine") or {}).get("gpus")
    single = asked.start_single if asked.start_single is not None else status.get("profile") == "demo-cpu" and on_cpu
    options = Options(
        bursts=asked.bursts,
        burst_size=asked.burst_size,
        allowed_restarts=asked.allow_restarts,
        container=asked.container,
        single_url=asked.single_url,
        start_single=single,
        seed=seed,
    )
    api = Api(
        asked.api_url or where.api_url(ops.url, os.environ),
        str(status.get("model")),
        where.api_key(os.environ, asked.api_key_file),
    )
    return Subject(api, ops, options, _local(status, about))


def _local(status: Mapping[str, Any], about: Mapping[str, Any]) -> Local | None:
    """Same PID namespace and file system: its own health file beats under our eyes."""
    folder = Path(str(about.get("run_dir") or "/nonexistent"))
    try:
        beat = json.loads((folder / "health.json").read_text(encoding="utf-8"))["heartbeat"]
    except (OSError, ValueError, KeyError):
        return None
    if abs(beat - status.get("heartbeat", 0.0)) > 10.0:
        return None
    state = about.get("state_dir")
    return Local(Path("/"), folder, Path(state) if state else None)


def _tell(terminal: Console, answer: CheckRun) -> None:
    word, style = _MARKS[answer.result.verdict]
    line = Text.assemble((word, style), f"  {answer.check.title:<34}", (f"{answer.seconds:7.2f} s  ", "dim"))
    terminal.print(line, Text(answer.result.evidence), sep="", soft_wrap=True)
    if answer.result.next_step and answer.result.verdict is not Outcome.PASS:
        terminal.print(Text(f"      → {answer.result.next_step}", style=style), soft_wrap=True)


def _close(paper: dict[str, Any], asked: VerifyOptions, rounds: list[tuple[CheckRun, ...]]) -> None:
    if asked.as_json:
        click.echo(json.dumps(paper, indent=1))
        return
    every = [answer for answers in rounds for answer in answers]
    counts = {word: sum(a.result.verdict is word for a in every) for word in Outcome}
    wrong = sorted({a.check.name for a in every if a.result.verdict is Outcome.FAIL})
    click.echo(f"{counts[Outcome.PASS]} passed, {counts[Outcome.FAIL]} failed, {counts[Outcome.SKIP]} skipped"
               + (f": {', '.join(wrong)}" if wrong else ""))  # fmt: skip
    if not every:
        raise ApplianceError("no check was chosen")
