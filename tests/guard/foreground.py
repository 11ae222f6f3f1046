"""`serve`'s foreground over stub servers, as a program: `python foreground.py FOLDER [NAME=VALUE...]`.

Everything is the product's but the plan, which is as much of one as the foreground reads. NAME=VALUE sets a bound of
`guard_watch` (SILENT_S=3), or a fault: `link=`, `console=`, `loop=` raise there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dsv4_pd.doctor import preflight
from dsv4_pd.plan import folders
from dsv4_pd.plan.paths import Paths
from dsv4_pd.run import files, serve
from dsv4_pd.run.console import outlet
from dsv4_pd.run.console.base import TextConsole
from dsv4_pd.run.supervision import guard_watch, inherited, sweep


def plan(folder: Path, limit: int) -> Any:
    settings = SimpleNamespace(drain_timeout=5, restart_limit=limit, restart_window=600, api_key=None,
                               log_level="info", host="127.0.0.1", port=1, ops_port=2, router="stub",
                               served_model_name="stub", ops_host="127.0.0.1")  # fmt: skip
    paths = Paths(run=folder / "run", state=folder / "state", cache=folder / "state", temp=folder / "run/tmp")
    return SimpleNamespace(paths=paths, settings=settings, programs=(), profile=SimpleNamespace(name="stub"),
                           placement=SimpleNamespace(roles=()), environ=os.environ)  # fmt: skip


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
            foreground = serve.Foreground(made, console)
            if "loop" in options:
                foreground._stop = broken  # type: ignore[method-assign]
            files.clean = lambda paths: None  # keeps the harness' own files for the next start
            return foreground.run()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(Path(sys.argv[1]), dict(word.split("=", 1) for word in sys.argv[2:])))
