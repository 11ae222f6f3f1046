"""`serve`'s foreground over stub servers, as a program: `python foreground.py FOLDER [NAME=VALUE...]`.

Everything is the product's; the plan is the demo's without its programs. NAME=VALUE sets a bound of
`guard_watch` (SILENT_S=3), or a fault: `link=`, `console=`, `loop=` raise there.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from dsv4_pd.doctor import preflight
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.plan import Plan
from dsv4_pd.run import files
from dsv4_pd.run.console import outlet
from dsv4_pd.run.console.base import TextConsole
from dsv4_pd.run.foreground import Foreground
from dsv4_pd.run.supervision import guard_watch, inherited, sweep

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a program
from support.plans import make, no_gpu


def plan(folder: Path, limit: int) -> Plan:
    """The demo's own plan, in this folder and with these bounds, and no programs: the harness starts the stubs."""
    settings = {
        "PROFILE": "demo-cpu",
        "RUN_DIR": folder / "run",
        "STATE_DIR": folder / "state",
        "CACHE_DIR": folder / "state",
        "DRAIN_TIMEOUT": "5",
        "RESTART_LIMIT": limit,
        "RESTART_WINDOW": "600",
    }
    made = make({f"DSV4_{name}": str(value) for name, value in settings.items()}, no_gpu())
    return replace(made, programs=(), environ=dict(os.environ))


def broken(*_: Any) -> Any:
    raise OSError(28, "No space left on device")


def stub_link(_: Any) -> str:
    return "KV link: stub"


def main(folder: Path, options: dict[str, str]) -> int:
    for name in ("SILENT_S", "YOUNG_S"):
        if name in options:
            setattr(guard_watch, name, float(options[name]))
    link: Any = broken if "link" in options else stub_link
    preflight.prove_link = link
    inherited.repair()
    made = plan(folder, int(options.get("limit", 3)))
    with folders.lock(made.paths):
        sweep.kill(made.paths.run)
        for name in ("health.json", "exit.json"):
            (made.paths.run / name).unlink(missing_ok=True)
        sweep.begin(made.paths.run)
        with TextConsole(made, outlet.standard()) as console:
            if "console" in options:
                console.tick = broken  # type: ignore[method-assign]
            foreground = Foreground(made, console)
            if "loop" in options:
                foreground._stop = broken  # type: ignore[method-assign]
            files.clean = lambda paths: None  # keeps the harness' own files for the next start
            return foreground.run()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(Path(sys.argv[1]), dict(word.split("=", 1) for word in sys.argv[2:])))
