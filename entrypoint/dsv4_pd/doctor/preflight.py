"""What `serve` asks before it starts anything: the fatal checks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsv4_pd.doctor.base import Check, Finding, Situation, Verdict
from dsv4_pd.doctor.gather import gather
from dsv4_pd.errors import ApplianceError, HardwareError, Problem, SettingsError, TemporaryError
from dsv4_pd.host import numa
from dsv4_pd.host.machine import Live
from dsv4_pd.host.parse import status_list
from dsv4_pd.host.read import read_facts
from dsv4_pd.plan import run_mark
from dsv4_pd.plan.environment import child_environment

if TYPE_CHECKING:
    from dsv4_pd.plan.boot import Plan

# A wrong setting is named first: mending it may change what the hardware has to do.
_ORDER: tuple[type[ApplianceError], ...] = (SettingsError, HardwareError, TemporaryError)


def numa_policy() -> numa.Policy:
    """The strongest NUMA policy that works in this container, by a dry run."""
    return permission().policy


def permission() -> numa.Permission:
    """The strongest policy, and why not a stronger one."""
    nodes = status_list(Live().text("/proc/self/status") or "", "Mems_allowed_list") or frozenset({0})
    return numa.probe(min(nodes))


def refuse(plan: Plan) -> None:
    """Run the fatal checks on a plan.

    Raises:
        SettingsError, HardwareError, TemporaryError: naming everything that would make the start fail.
    """
    from dsv4_pd.doctor.catalogue import CHECKS, examine
    from dsv4_pd.doctor.checks.gpu_processes import HARMLESS

    allowed = numa.Permission("membind") if plan.settings.numa == "off" else permission()
    around = gather(plan.settings, plan.programs, plan.paths, allowed, os.environ)
    # Read anew when the cards looked busy: what a killed run left on them has been swept since the plan was made.
    busy = any(gpu.processes or (gpu.memory_used_bytes or 0) > HARMLESS for gpu in plan.facts.gpus)
    facts = read_facts() if busy else plan.facts
    situation = Situation(plan.settings, plan.profile, facts, plan.placement, None, around)
    found = examine(situation, tuple(check for check in CHECKS if check.fatal))
    raise_failures(found)


def prove_link(plan: Plan) -> str:
    """Move bytes from prefill to decode as the servers will; the line that says how it went, if there is a link.

    Raises:
        HardwareError: the bytes arrived wrong.
    """
    from dsv4_pd.doctor.link.run import prove

    environ = child_environment(os.environ, run_mark.current(plan.paths.run))
    report = prove(plan.settings.engine_python, plan.placement, plan.programs, environ, plan.paths.run / "link.json")
    return f"KV link: {report.text()}" if report else ""


def raise_failures(findings: tuple[tuple[Check, Finding], ...]) -> None:
    """Raise the failures as one error, if there are any."""
    failed = [(check, finding) for check, finding in findings if finding.verdict is Verdict.FAIL]
    for kind in _ORDER:
        problems = [_problem(check, finding) for check, finding in failed if check.error is kind]
        if problems:
            raise kind(problems)


def _problem(check: Check, finding: Finding) -> Problem:
    """A failed check as a problem; a reading that begins with a setting's name is about that setting."""
    subject, separator, found = finding.read.partition(": ")
    named = separator and subject.startswith("DSV4_") and subject.isidentifier()
    return Problem(subject if named else check.name, found if named else finding.read, check.expected, finding.remedy)
