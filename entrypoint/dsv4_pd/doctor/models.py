"""Models on this machine: which are known by name, which are here, and how each fits the present settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dsv4_pd.doctor.base import CheckVerdict
from dsv4_pd.doctor.checks.gpus import memory_fit
from dsv4_pd.errors import ApplianceError, SettingsError
from dsv4_pd.host.facts import HostFacts
from dsv4_pd.host.machine import Live
from dsv4_pd.plan.around.unjudged import unjudged
from dsv4_pd.plan.model import checkpoint
from dsv4_pd.plan.model import files as model_files
from dsv4_pd.plan.shipped.catalogue import Entry
from dsv4_pd.plan.situation import Situation
from dsv4_pd.plan.survey import survey, survey_facts
from dsv4_pd.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class ModelHere:
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


def of_entry(entry: Entry, environ: Mapping[str, str], facts: HostFacts) -> ModelHere:
    """A model of the catalogue."""
    fits, why = _fit(entry, environ, facts)
    model = model_files.look(entry.hub, entry.revision, environ)
    size = None if entry.weights_bytes is None else round(entry.weights_bytes / 1e9, 1)
    return ModelHere(
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
    return _judged(situation)


def _judged(situation: Situation) -> tuple[bool | None, str]:
    finding = memory_fit.CHECK.run(situation)
    if finding.verdict is CheckVerdict.FAIL:
        return False, f"{finding.subject}: {finding.read}; {finding.remedy}"
    known = situation.on_gpus and finding.verdict is CheckVerdict.OK and situation.around.shape is not None
    return (True if known else None), finding.read


def of_settings(environ: Mapping[str, str]) -> ModelHere | None:
    """The model of the settings, where the catalogue does not know it, by its config.json."""
    try:
        situation = survey(environ, Live())
    except SettingsError:
        return None
    around, settings = situation.around, situation.settings
    if around.entry is not None or (situation.profile is not None and situation.profile.model):
        return None
    if situation.refusal is not None:
        fits, why = None, str(situation.refusal)
    else:
        fits, why = _judged(situation)
    total, drafts = around.model.total_bytes, checkpoint.drafts(around.config or {})
    return ModelHere(
        name=settings.model, hub=settings.model, revision=settings.model_revision,
        weights_gb=round(total / 1e9, 1) if total else None, experts=checkpoint.expert_format(around.config or {}),
        draft=drafts[0] if drafts else None, here=around.model.path is not None and not around.model.problems,
        default=False, fits=fits, why=why, unknown=unjudged(around),
    )  # fmt: skip
