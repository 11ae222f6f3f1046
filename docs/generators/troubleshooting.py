"""docs/troubleshooting.md, generated from the checks: by symptom, because a symptom is what an operator has."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsv4_pd.doctor.base import Check
from dsv4_pd.doctor.catalogue import CHECKS
from dsv4_pd.doctor.checks.links import kv_link
from dsv4_pd.host import nvml_causes, xids
from dsv4_pd.run.download import causes as download_causes
from dsv4_pd.run.guard.watch.endings import LIKELY_OF_CODE, LIKELY_OF_SIGNAL

ROOT = Path(__file__).resolve().parents[2]
_HEAD = """\
# Troubleshooting, by symptom

<!-- Generated from entrypoint/dsv4_pd/doctor/checks by `make docs`; do not edit. -->

`dsv4-pd doctor` runs all of these checks and names the command that fixes what it finds. It exits with 0 if everything
is healthy, 1 on warnings, 2 on failures. `--quiet` prints warnings and failures only, `--json` is for scripts,
`--link` also transfers data between the two roles, `--capture DIR` records the host's data, scrubbed, for
`doctor --replay DIR` and `plan --replay DIR` on another machine.
`dsv4-pd serve` runs the checks marked *refuses* before loading. `dsv4-pd support-bundle` collects the report,
the plan and the logs, redacted.

| What you see | Check | serve |
|---|---|---|
"""


# Commands and names that a sentence may begin with: they keep their own spelling.
_PROGRAMS = frozenset(
    ("dmesg", "docker", "dsv4-pd", "lspci", "nvidia-ctk", "nvidia-smi", "podman", "sudo", "systemctl")
)


def text() -> str:
    """The page."""
    checks = (*CHECKS, kv_link.CHECK)
    rows = "".join(f"| {_cell(c.symptom)} | [{c.name}](#{c.name}) | {'refuses' if c.fatal else ''} |\n" for c in checks)
    parts = (_nvml(), _xids(), _downloads(), _endings(), _signatures())
    return _HEAD + rows + "".join(_section(check) for check in checks) + "".join(parts)


def _nvml() -> str:
    """What NVML says: one row for each cause, none for the rest."""
    rows = "".join(
        f"| {c.name} | `{c.words.replace('|', '&#124;')}` | {_cell(c.host)} | {_cell(c.container)} | {c.source} |\n"
        for c in nvml_causes.CAUSES
    )
    return (
        "\n## What NVML says\n\n"
        "From `entrypoint/dsv4_pd/host/nvml_causes.py`. Messages that match no row get no remedy.\n\n"
        "| Cause | Words | On the host | In a container | Source |\n|---|---|---|---|---|\n" + rows
    )


def _xids() -> str:
    """Errors that the driver reports of a card."""
    rows = "".join(
        f"| {number} | {_cell(xid.meaning)} | {'yes' if xid.broken else ''} |\n" for number, xid in xids.XIDS.items()
    )
    return (
        "\n## What the driver reports of a card (Xid)\n\n"
        f"From `entrypoint/dsv4_pd/host/xids.py`, after {xids.CATALOGUE}.\n"
        f"Where only a reset fixes it: {xids.RESET}.\n\n"
        "| Xid | Meaning | Only a reset fixes it |\n|---|---|---|\n" + rows
    )


def _downloads() -> str:
    """Why a download ends, from the table that it ends by."""
    head = (
        "\n## Why a download fails\n\n"
        "From `entrypoint/dsv4_pd/run/download/causes.py`; what `serve` and `dsv4-pd download` say when the model "
        "can't be downloaded.\n*again*: retried automatically until `DSV4_DOWNLOAD_STALL_TIMEOUT`. What has arrived "
        "is kept; the next start\nresumes it.\n\n"
        "| Cause | Found | What to do | Exit |\n|---|---|---|---|\n"
    )
    names = {"model": "OWNER/MODEL", "revision": "REVISION", "endpoint": "the Hub", "cache": "HF_HOME",
             "proxy": "HTTPS_PROXY", "detail": "…"}  # fmt: skip
    rows = [
        f"| {cause.name} | {_cell(f'{cause.subject}: {cause.found}'.format_map(names))} "
        f"| {_cell(cause.remedy.format_map(names))} | {cause.error.exit_code}{', again' if cause.again else ''} |\n"
        for cause in download_causes.CAUSES
    ]
    return head + "".join(rows)


def _endings() -> str:
    """How a process ended."""
    causes = {number.name: words for number, words in LIKELY_OF_SIGNAL.items()}
    causes |= {f"code {code}": words for code, words in LIKELY_OF_CODE.items()}
    rows = "".join(f"| {how} | {_cell(words)} |\n" for how, words in causes.items())
    return (
        "\n## How a process ended\n\n"
        "From `entrypoint/dsv4_pd/run/guard/watch/endings.py`; signals also as 128 + number.\n\n"
        "| It ended by | Likely cause |\n|---|---|\n" + rows
    )


_ACTIONS = {
    "restart-role": "restarts the server",
    "restart-pair": "restarts prefill and decode",
    "exit": "ends, exit {exit_code}",
    "explain": "names it beside what it sees otherwise",
    "ignore": "nothing: it looks alarming and is not",
}


def _signatures() -> str:
    """Lines of a server's log, from the table that reads them; its sources are looked up by tests."""
    head = (
        "\n## What a server's log line means\n\n"
        "From `config/signatures.toml`. Of a server that serves a line decides nothing: it explains what is seen "
        "otherwise.\nFiles are those of SGLang 0.5.23's environment; `OWNER/REPOSITORY#NUMBER` is a public report on "
        "GitHub.\n\n"
        "| Words | Means | The guard | Source |\n|---|---|---|---|\n"
    )
    table = tomllib.loads((ROOT / "config/signatures.toml").read_text(encoding="utf-8"))
    return head + "".join(map(_signature, table["fatal"]))


def _signature(row: Mapping[str, Any]) -> str:
    sources = [one.partition(": ") for one in row["source"]]
    said = [words or row.get("text", "") for _, _, words in sources]
    words = dict.fromkeys(re.sub(r"\{[^}]*\}", "…", text.strip()) for text in said if text)
    means = re.sub(r"\{\w+\}", "…", row.get("cause", ""))
    act = _ACTIONS[row["action"]].format(exit_code=row.get("exit_code", 1))
    if row.get("memory"):
        means += "; the guard says which setting to lower, and by how much"
    places = ", ".join(f"`{place}`" if "#" not in place else place for place in dict.fromkeys(s[0] for s in sources))
    code = "<br>".join(f"``{text}``" if "`" in text else f"`{text}`" for text in words)
    return f"| {code.replace('|', '&#124;')} | {_cell(means) if means else ''} | {act} | {places} |\n"


def _cell(words: str) -> str:
    """As a sentence begins, but for commands and the names of programs.

    >>> _cell("slow decoding"), _cell("sudo modprobe nvidia"), _cell('docker: "x|y"')
    ('Slow decoding', 'sudo modprobe nvidia', 'docker: "x\\\\|y"')
    """
    command = words.split(maxsplit=1)[0].rstrip(":;,") in _PROGRAMS
    return (words if command else words[0].upper() + words[1:]).replace("|", "\\|")


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
