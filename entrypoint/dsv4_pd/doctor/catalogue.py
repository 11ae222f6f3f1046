"""Every check, in the order of the report: whatever lies in a room of `doctor.checks` is one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from dsv4_pd.doctor import checks
from dsv4_pd.doctor.base import Check, CheckVerdict, Finding, skip, warn
from dsv4_pd.plan.situation import Situation

# The order of the report; inside a room the checks say their own.
ROOMS = ("driver", "gpus", "links", "host", "settings", "software", "model")


def of_room(room: str) -> list[Check]:
    """The CHECK of every module that lies in a room, in their own order, without those that have no place in it."""
    package = import_module(f"{checks.__name__}.{room}")
    found: list[Check] = [
        import_module(f"{package.__name__}.{module.name}").CHECK for module in iter_modules(package.__path__)
    ]
    return sorted((check for check in found if check.place is not None), key=lambda check: (check.place, check.name))


CHECKS: tuple[Check, ...] = tuple(check for room in ROOMS for check in of_room(room))
_NO_GPU = skip("about GPUs and their host; this profile uses none")

Findings = tuple[tuple[Check, Finding], ...]


def examine(situation: Situation, asked: tuple[Check, ...] = CHECKS) -> Findings:
    """Ask every check that applies; on the CPU profile the hardware's don't."""
    return tuple((check, _ask(check, situation)) for check in asked)


def _ask(check: Check, situation: Situation) -> Finding:
    """One finding. A check that breaks costs its own line: the others still speak, and a start goes on."""
    if check.gpu_only and not situation.on_gpus:
        return _NO_GPU
    try:
        return check.run(situation)
    except Exception as error:  # a fault of ours in one check must not hide what the others found
        read = f"check {check.name} failed: {type(error).__name__}: {error}"
        return warn(read, "please report this, with `dsv4-pd support-bundle`")


def worst(findings: Findings) -> int:
    """doctor's exit code: 0 all well, 1 warnings, 2 failures."""
    verdicts = {finding.verdict for _, finding in findings}
    return 2 if CheckVerdict.FAIL in verdicts else int(CheckVerdict.WARN in verdicts)
