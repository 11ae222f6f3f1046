"""docs/troubleshooting.md, generated from the checks: by symptom, because a symptom is what an operator has."""

from __future__ import annotations

import inspect

from dsv4_pd.doctor.base import Check
from dsv4_pd.doctor.catalogue import CHECKS
from dsv4_pd.doctor.checks import kv_link
from dsv4_pd.run.download.causes import CAUSES

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
    return _HEAD + rows + "".join(_section(check) for check in checks) + _causes()


def _causes() -> str:
    """Why a download ends, from the table that it ends by."""
    head = (
        "\n## download\n\nWhat `serve` and `dsv4-pd download` say when the model can't be had. *again*: tried again by "
        "itself until\n`DSV4_DOWNLOAD_STALL_TIMEOUT`. What is there by then stays; the next start goes on with it.\n\n"
        "| cause | found | what to do | exit |\n|---|---|---|---|\n"
    )
    names = {"model": "OWNER/MODEL", "revision": "REVISION", "endpoint": "the Hub", "cache": "HF_HOME", "detail": "…"}
    rows = [
        f"| {cause.name} | {cause.subject.format_map(names)}: {cause.found.format_map(names)} "
        f"| {cause.remedy.format_map(names)} | {cause.error.exit_code}{', again' if cause.again else ''} |\n"
        for cause in CAUSES
    ]
    return head + "".join(rows)


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
