"""What is known of the model, and what can't be judged before it runs."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, ok, skip, warn
from dsv4_pd.plan.around.unjudged import unjudged
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    entry, left = s.around.entry, "; ".join(unjudged(s.around))
    if entry is not None:
        return ok(f"{entry.name} of the catalogue" + (f"; not known: {left}" if left else ""))
    if s.around.config is None and s.around.model.path is not None:
        return skip("the model's config.json was not read")
    if not left:
        return ok("not in the catalogue; its config.json answers all that is asked")
    return warn(f"not in the catalogue; not judged: {left}", "`dsv4-pd models` lists the models that are known")


CHECK = Check(
    name="model-known",
    place=20,
    symptom="a start that fails late, or meaningless answers, with a model that was not tested here",
    why="Memory, context, experts and speculative block are read from config.json; what it lacks is not checked.",
    source="config/models/README.md; SGLang 0.5.23 configs/model_config.py",
    run=_run,
    expected="a model of the catalogue, or a config.json that tells enough",
)
