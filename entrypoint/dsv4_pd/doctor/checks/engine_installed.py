"""The engine's and the router's environments must be there."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, Situation, fail, ok
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.programs import router_python


def _run(s: Situation) -> Finding:
    if not s.around.engine_python:
        return fail(
            f"DSV4_ENGINE_PYTHON: no interpreter with SGLang at {s.settings.engine_python}",
            "run `make engine` (`make demo` does it too); the image carries it",
        )
    if not s.around.router_python:
        return fail(
            f"DSV4_ROUTER_PYTHON: no interpreter with the router at {router_python(s.settings)}",
            "run `make engine` (`make demo` does it too); the image carries it",
        )
    return ok(f"{s.settings.engine_python}")


CHECK = Check(
    name="engine-installed",
    symptom='the servers exit at once with "No such file" or "No module named sglang"',
    why="Control plane, engine and router live in three environments; each must have been installed.",
    source="docs/structure.md",
    run=_run,
    expected="an interpreter that was set up",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
