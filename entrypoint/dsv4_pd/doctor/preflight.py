"""What `serve` asks before it starts anything: the fatal checks."""

from __future__ import annotations

from dataclasses import replace

from dsv4_pd.doctor.base import Check, CheckVerdict, Finding
from dsv4_pd.doctor.catalogue import CHECKS, Findings, examine
from dsv4_pd.errors import ApplianceError, HardwareError, Problem, SettingsError, TemporaryError
from dsv4_pd.plan.disk import run_mark
from dsv4_pd.plan.plan import Plan
from dsv4_pd.plan.programs.environment import child_environment
from dsv4_pd.plan.situation import Situation

_FAIL = CheckVerdict.FAIL
# A wrong setting is named first: fixing it may change what the hardware has to do.
_ORDER: tuple[type[ApplianceError], ...] = (SettingsError, HardwareError, TemporaryError)


def planned(situation: Situation) -> Plan:
    """The plan.

    Raises:
        ApplianceError: why there is none. Cards that don't answer are named too: what is missing may be one of them.
    """
    refusal = situation.refusal
    if situation.plan is not None or refusal is None or not situation.on_gpus or not situation.facts.lost_gpus:
        return situation.planned()
    visible = next(check for check in CHECKS if check.name == "gpu-visible")
    lost = [_problem(check, found) for check, found in examine(situation, (visible,)) if found.verdict is _FAIL]
    if isinstance(refusal, HardwareError):
        raise HardwareError([*lost, *refusal.problems])
    raise type(refusal)([*refusal.problems, *lost])  # a wrong setting is named first


def refuse(situation: Situation) -> Plan:
    """The plan, when no fatal check speaks against it.

    Raises:
        SettingsError, HardwareError, TemporaryError: naming everything that would make the start fail.
    """
    plan = planned(situation)
    # `serve` holds the run folder's lock: what uses ports or cards is no appliance of this folder.
    alone = replace(situation, around=replace(situation.around, running=False))
    raise_failures(examine(alone, tuple(check for check in CHECKS if check.fatal)))
    return plan


def prove_link(plan: Plan) -> str:
    """Move bytes from prefill to decode as the servers will; the line that says how it went, if there is a link.

    Raises:
        HardwareError: the bytes arrived wrong.
    """
    from dsv4_pd.doctor.link.run import prove

    environ = child_environment(plan.environ, run_mark.current(plan.paths.run))
    report = prove(plan.settings.engine_python, plan.placement, plan.programs, environ, plan.paths.run / "link.json")
    return f"KV link: {report.text()}" if report else ""


def raise_failures(findings: Findings) -> None:
    """Raise the failures as one error, if there are any."""
    failed = [(check, finding) for check, finding in findings if finding.verdict is _FAIL]
    for kind in _ORDER:
        problems = [_problem(check, finding) for check, finding in failed if check.error is kind]
        if problems:
            raise kind(problems)


def _problem(check: Check, finding: Finding) -> Problem:
    """A failed check as a problem about its setting, or about the check where there is none."""
    return Problem(finding.subject or check.name, finding.read, check.expected, finding.remedy)
