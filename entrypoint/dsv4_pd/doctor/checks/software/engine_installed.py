"""The engine's and the router's environments must be installed."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.programs.build import router_python
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    remedy = "run `make engine` (`make demo` does it too); the image carries it"
    engine, router = s.settings.engine_python, router_python(s.settings)
    if not s.around.can_run(engine):
        return fail(f"no interpreter with SGLang at {engine}", remedy, "DSV4_ENGINE_PYTHON")
    if not s.around.can_run(router):
        return fail(f"no interpreter with the router at {router}", remedy, "DSV4_ROUTER_PYTHON")
    return ok(f"{s.settings.engine_python}")


CHECK = Check(
    name="engine-installed",
    place=60,
    symptom='the servers exit at once with "No such file" or "No module named sglang"',
    why="Control plane, engine and router live in three environments; each must have been installed.",
    source="docs/image.md (one environment each for control plane, engine and routers)",
    run=_run,
    expected="an interpreter that was set up",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
