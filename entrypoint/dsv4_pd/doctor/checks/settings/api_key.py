"""An API without a key, where others can reach it."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, warn
from dsv4_pd.plan.front import open_api
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if open_api.notices(s.settings):
        return warn(
            f"none, and the API listens on {s.settings.host}",
            "set DSV4_API_KEY_FILE, or DSV4_HOST=127.0.0.1 (in a container: publish the port on 127.0.0.1)",
        )
    return ok("set" if s.settings.api_key else f"none; only this machine reaches {s.settings.host}")


CHECK = Check(
    name="api-key",
    place=80,
    symptom="strangers use the model; answers get slow under load that is not yours",
    why="Without a key anyone who can reach the port is served, and a container's port is published on every address.",
    source="docs/security.md",
    run=_run,
    gpu_only=False,
)
