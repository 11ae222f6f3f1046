"""The KV link's own test, as a finding beside the others: `doctor --link`."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail
from dsv4_pd.doctor.checks.links import kv_link
from dsv4_pd.doctor.link.run import measure
from dsv4_pd.plan.situation import Situation


def link_finding(situation: Situation) -> tuple[Check, Finding]:
    """Moves bytes as the two roles will; without a plan or an engine nothing can be tested."""
    plan = situation.plan
    if plan is None or not situation.around.can_run(plan.settings.engine_python):
        return kv_link.CHECK, fail("not tested: no plan or no engine", "fix gpu-plan and engine-installed first")
    # Not the plan's own environment: it marks processes as a run's, and a running appliance ends strays of its run.
    environ = situation.around.environ
    report = measure(plan.settings.engine_python, plan.placement, plan.programs, environ)
    return kv_link.CHECK, kv_link.judge(report)
