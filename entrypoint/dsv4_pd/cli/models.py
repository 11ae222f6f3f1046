"""`dsv4-pd models`: what is known by name, and how each fits on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click

from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks import memory_fit
from dsv4_pd.errors import ApplianceError
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import Live
from dsv4_pd.host.read import facts_of
from dsv4_pd.plan import catalogue, model_files
from dsv4_pd.plan.catalogue import Entry
from dsv4_pd.plan.paths import models_dir
from dsv4_pd.plan.survey import survey_facts
from dsv4_pd.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class Line:
    """One model on this machine."""

    name: str
    hub: str
    revision: str | None
    weights_gb: float | None
    experts: str | None
    draft: str | None
    here: bool  # in the cache, by its index whole
    default: bool
    fits: bool | None  # None: not judged
    why: str
    unknown: tuple[str, ...]


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """List the models that DSV4_MODEL knows by name, and how each fits on this machine with the present settings."""
    known, facts = catalogue.read_all(models_dir()), facts_of(Live())
    lines = [_line(entry, os.environ, facts) for entry in known.values()]
    if as_json:
        click.echo(json.dumps({"models": [asdict(line) for line in lines]}, indent=2))
        return
    click.echo("\n\n".join("\n".join(_text(line, known[line.name])) for line in lines))


def _line(entry: Entry, environ: Mapping[str, str], facts: HostFacts) -> Line:
    fits, why = _fit(entry, environ, facts)
    model = model_files.look(entry.hub, entry.revision, environ)
    size = None if entry.weights_bytes is None else round(entry.weights_bytes / 1e9, 1)
    return Line(
        name=entry.name, hub=entry.hub, revision=entry.revision, weights_gb=size, experts=entry.experts,
        draft=entry.draft, here=model.path is not None and not model.problems,
        default=entry.name == Settings.model_fields["model"].default, fits=fits, why=why, unknown=entry.unknown,
    )  # fmt: skip


def _fit(entry: Entry, environ: Mapping[str, str], facts: HostFacts) -> tuple[bool | None, str]:
    """By the plan that these settings lead to with this model."""
    if entry.refused:
        return False, entry.refused
    asked: dict[str, Any] = {**environ, "DSV4_MODEL": entry.name, "DSV4_MODEL_REVISION": "", "DSV4_SPECULATIVE": "off"}
    try:
        situation = survey_facts(asked, facts)
        situation.planned()
    except ApplianceError as error:
        return None, str(error.problems[0] if error.problems else error)
    finding = memory_fit.CHECK.run(situation)
    if finding.verdict is CheckVerdict.FAIL:
        return False, f"{finding.subject}: {finding.read}; {finding.remedy}"
    return (True if situation.on_gpus and finding.verdict is CheckVerdict.OK else None), finding.read


def _text(line: Line, entry: Entry) -> list[str]:
    size = "size not known" if line.weights_gb is None else f"{line.weights_gb} GB"
    block = f"{line.draft} inside" if line.draft else "no speculative block"
    marks = [mark for mark, set_ in (("default", line.default), ("on this machine", line.here)) if set_]
    marked = [f"({', '.join(marks)})"] if marks else []
    verdict = {True: "fits", False: "does not fit", None: "not judged"}[line.fits]
    return [
        f"{' '.join([line.name, *marked])}: {entry.description}",
        f"  {line.hub} @ {line.revision or 'no revision pinned'}",
        f"  {size}, experts {line.experts or 'not known'}, {block}",
        f"  {verdict}: {line.why}",
        *([f"  not known: {'; '.join(line.unknown)}"] if line.unknown else []),
    ]
