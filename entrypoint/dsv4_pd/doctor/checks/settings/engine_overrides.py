"""The operator's variables of the engine must reach it, and leave it what the plan relies on."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, warn
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.flags import engine_variables
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    plugins = s.profile.engine_env.get("SGLANG_PLUGINS", "") if s.profile else ""
    found = engine_variables.remarks(s.settings, s.own, s.around.environ, plugins)
    judged = [one for one in found if one.refused] or list(found)
    if judged:
        read = "; ".join(f"{one.name}: found {one.found}, expected {one.expected}" for one in judged)
        remedy = "; ".join(dict.fromkeys(one.remedy for one in judged))
        return fail(read, remedy) if judged[0].refused else warn(read, remedy)
    names = sorted(
        name for name, value in s.around.environ.items() if value and name.startswith(engine_variables.PREFIXES)
    )
    return ok(f"set from outside: {', '.join(names)}" if names else "none")


CHECK = Check(
    name="engine-overrides",
    place=35,
    symptom="a SGLANG_* variable that changes nothing, or servers that end after the load over one",
    why="The engine takes a value that it can't parse for unset, and never looks at a name that it does not know.",
    source="SGLang 0.5.23 environ.py (EnvField.get), disaggregation/nixl/conn.py (NixlKVManager)",
    run=_run,
    expected="variables that the engine reads as they were meant",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
