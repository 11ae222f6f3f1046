"""A model that is not here must be downloadable."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, skip, warn
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.model.files import offline
from dsv4_pd.plan.situation import Situation
from dsv4_pd.settings import hub_environ, hub_token


def _run(s: Situation) -> Finding:
    if s.settings.role == "router":
        return skip("a router loads no model")
    switch = offline(s.around.environ)
    if s.around.model.path is not None:
        return ok(f"not needed, the model is here{f' ({switch} is set)' if switch else ''}")
    if switch:
        return fail(
            f"{switch} is set and {s.settings.model} is not on this machine",
            f"unset {switch} and run `dsv4-pd download`, or set DSV4_MODEL to a folder that has it",
        )
    if wrong := hub_environ.way_problems(s.around.environ):
        first = wrong[0]
        return fail(f"{first.found}, not {first.expected}", first.remedy, first.subject)
    if not s.settings.model_revision:
        return warn(
            "online, and DSV4_MODEL_REVISION is not set: the newest commit is taken",
            "set DSV4_MODEL_REVISION to a commit, so that both roles and every restart load the same",
        )
    token = next((name for name in (hub_token.NAME, hub_token.FILE) if s.env(name)), None)
    return ok("online, revision pinned" + (f", {token} set" if token else ", no HF_TOKEN (public model)"))


CHECK = Check(
    name="hub-access",
    symptom='"We couldn\'t connect to the Hub" or 401/403 while loading',
    why="An offline switch with no local copy fails only when the servers load; an unpinned revision can change.",
    source="huggingface_hub environment variables (HF_HUB_OFFLINE, HF_TOKEN), and HF_TOKEN_FILE of ours",
    run=_run,
    expected="a local copy of the model, or permission to download it",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
