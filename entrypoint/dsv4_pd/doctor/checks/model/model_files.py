"""The model's folder must be complete."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, gib, ok, skip, warn
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.model.files import is_folder, offline
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    if s.settings.role == "router":
        return skip("a router loads no model")
    model = s.around.model
    if model.path is None:
        return warn(f"{s.settings.model} is not on this machine; serve fetches it first", "dsv4-pd download")
    if model.problems:
        more = f" and {len(model.problems) - 3} more" if len(model.problems) > 3 else ""
        read = f"{model.path}: {'; '.join(model.problems[:3])}{more}"
        if not is_folder(s.settings.model) and not offline(s.around.environ):
            return warn(f"{read}; serve fetches it", "dsv4-pd download")
        return fail(read, _remedy(s))
    return ok(f"{model.path}, complete" + (f", {gib(model.total_bytes)}" if model.total_bytes else ""))


def _remedy(s: Situation) -> str:
    """A name on the Hub can be downloaded again; a folder is the operator's own copy."""
    if s.settings.model == str(s.around.model.path):
        return "copy the model there again, mount what its links point to, or set DSV4_MODEL"
    return "run `dsv4-pd download` again"


CHECK = Check(
    name="model-files",
    symptom="a crash with a safetensors or JSON error after minutes of loading, or garbage answers",
    why="An interrupted copy leaves missing, empty or short shards, and links into a cache that was not mounted.",
    source="safetensors format (header length and offsets); Hugging Face cache layout (links into blobs)",
    run=_run,
    expected="every file that the index names, complete",
    fatal=True,
    error=SettingsError,
    gpu_only=False,
)
