"""`dsv4-pd health`: what HEALTHCHECK runs. Reads one file; its last line is the reason, its exit code the verdict."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from dsv4_pd.plan.disk import trust
from dsv4_pd.run.states import SERVING
from dsv4_pd.settings.text import bare, given, placed

STALE_S = 15.0  # the guard beats every second; this long without it, nobody watches
_HELP = (
    "usage: dsv4-pd health [HEALTH-FILE]\n\nExit 0 while the appliance serves, 1 otherwise; prints state and reason."
)


def judge(text: str | None, now: float, ticks: float | None = None) -> tuple[int, str]:
    """(exit code, one line) from the health file's text. `ticks`: the monotonic clock, which no clock change moves.

    >>> judge('{"state": "READY", "reason": "ok", "heartbeat": 10.0}', 11.0)
    (0, 'READY: ok')
    """
    if text is None:
        return 1, "not started: no health file"
    try:
        health = json.loads(text)
    except ValueError:  # on a full tmpfs the guard overwrites the file in place
        return 1, "the health file was being written; ask again"
    beat = health.get("heartbeat_monotonic")
    age = now - health["heartbeat"] if ticks is None or beat is None else ticks - beat
    if age > STALE_S:
        return 1, f"the guard's last heartbeat is {age:.0f} s old (state then: {health['state']})"
    return int(health["state"] not in SERVING), f"{health['state']}: {health['reason']}"


def main(argv: list[str]) -> int:
    """Print one line and return 0 or 1."""
    if argv[:1] in (["--help"], ["-h"]):
        print(_HELP)
        return 0
    code, line = judge(_read(argv[0] if argv else None), time.time(), time.monotonic())
    print(line)
    return code


def _read(path: str | None) -> str | None:
    """The first file that is there. Where nobody named it, it must not be one that others could put there."""
    for candidate in [path] if path else _default_files():
        try:
            if not path and (wrong := trust.read_refusal(Path(candidate))):
                print(f"not believed: {wrong}", file=sys.stderr)
                continue
            with open(candidate, encoding="utf-8") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            print(f"{candidate}: {error.strerror}", file=sys.stderr)
    return None


def _default_files() -> list[str]:
    """Where `folders.resolve` puts the run folder, without its imports."""
    named = bare(given(os.environ).get("DSV4_RUN_DIR", ""))
    runtime = os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")
    folders = (
        [placed(named, os.environ)] if named else ["/run/dsv4-pd", f"{runtime}/dsv4-pd", f"/tmp/dsv4-pd-{os.getuid()}"]
    )
    return [f"{folder}/health.json" for folder in folders]
