"""docs/troubleshooting.md, generated from the checks: by symptom, because a symptom is what an operator has."""

from __future__ import annotations

import inspect

from dsv4_pd.doctor.base import Check
from dsv4_pd.doctor.catalogue import CHECKS
from dsv4_pd.doctor.checks import kv_link
from dsv4_pd.host.nvml_causes import CAUSES
from dsv4_pd.run.guard.endings import LIKELY

_HEAD = """\
# Troubleshooting, by symptom

<!-- Generated from entrypoint/dsv4_pd/doctor/checks by `make docs`; do not edit. -->

`dsv4-pd doctor` asks all of this at once and names the command that mends what it finds. It exits with 0 when all is
well, 1 for warnings, 2 for failures. `--quiet` prints only what is not in order, `--json` is for programs, `--link`
also moves bytes between the two roles, `--capture DIR` writes down what was read, scrubbed, for
`doctor --replay DIR` and `plan --replay DIR` on another machine.
`dsv4-pd serve` asks the questions marked *refuses* before it loads anything. `dsv4-pd support-bundle` packs the report,
the plan and the logs, redacted.

| What you see | Check | serve |
|---|---|---|
"""


def text() -> str:
    """The page."""
    checks = (*CHECKS, kv_link.CHECK)
    rows = "".join(f"| {_cell(c.symptom)} | [{c.name}](#{c.name}) | {'refuses' if c.fatal else ''} |\n" for c in checks)
    return _HEAD + rows + "".join(_section(check) for check in checks) + _causes() + _endings()


def _causes() -> str:
    """What NVML says: one row for each cause, none for the rest."""
    rows = "".join(
        f"| {c.name} | `{c.words.replace('|', '&#124;')}` | {_cell(c.host)} | {_cell(c.container)} | {c.source} |\n"
        for c in CAUSES
    )
    return (
        "\n## What NVML says\n\n"
        "From `entrypoint/dsv4_pd/host/nvml_causes.py`. Words that are in no row get no remedy.\n\n"
        "| Cause | Words | On the host | In a container | Source |\n|---|---|---|---|---|\n" + rows
    )


def _endings() -> str:
    """How a process ended."""
    rows = "".join(f"| {how} | {_cell(words)} |\n" for how, words in LIKELY.items())
    return (
        "\n## How a process ended\n\nFrom `entrypoint/dsv4_pd/run/guard/endings.py`; signals also as 128 + number.\n\n"
        "| It ended by | Likely cause |\n|---|---|\n" + rows
    )


def _cell(words: str) -> str:
    return (words[0].upper() + words[1:]).replace("|", "\\|")


def _section(check: Check) -> str:
    module = inspect.getmodule(check.run)
    rule = (inspect.getdoc(module) or "").splitlines()[0] if module else ""
    refuses = (
        f"\n**serve** refuses (exit {check.error.exit_code}) unless it finds {check.expected}.\n" if check.fatal else ""
    )
    return (
        f"\n## {check.name}\n\n{rule}\n\n**Symptom.** {_cell(check.symptom)}.\n\n**Why.** {check.why}\n{refuses}"
        f"\n**Source.** {check.source}\n"
    )
