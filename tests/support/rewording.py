"""A situation with every sentence in it replaced: what is decided from it must stay the same."""

from __future__ import annotations

from dataclasses import replace

from dsv4_pd.errors import ApplianceError, Problem
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.situation import Situation

WORDS = "reworded"


def reworded(found: Situation) -> Situation:
    """The same kinds, subjects and numbers; none of the texts."""
    facts = replace(found.facts, gpu_error=found.facts.gpu_error and WORDS)
    permission = replace(found.around.numa, reason=found.around.numa.reason and WORDS)
    model = replace(found.around.model, problems=tuple(WORDS for _ in found.around.model.problems))
    return replace(
        found,
        facts=facts,
        plan=found.plan and _plan(found.plan),
        refusal=found.refusal and _refusal(found.refusal),
        around=replace(found.around, numa=permission, model=model),
        door_files=tuple((setting, WORDS) for setting, _ in found.door_files),
    )


def _plan(plan: Plan) -> Plan:
    notices = tuple(replace(notice, text=WORDS) for notice in plan.placement.notices)
    return replace(plan, placement=replace(plan.placement, notices=notices))


def _refusal(error: ApplianceError) -> ApplianceError:
    return type(error)([Problem(problem.subject, WORDS, WORDS, WORDS) for problem in error.problems])
