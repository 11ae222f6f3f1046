"""Weights, KV cache and graphs must fit into each card."""

from __future__ import annotations

from dsv4_pd.doctor.base import Check, Finding, fail, ok, skip
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.memory.pinned import pinned_tokens
from dsv4_pd.plan.memory.plan import estimates, misfits, table, too_heavy
from dsv4_pd.plan.situation import Situation


def _run(s: Situation) -> Finding:
    shape = s.around.shape
    if s.placement is None or not s.placement.visible:
        return skip("there is no plan")
    if shape is None:
        entry, size = s.around.entry, s.around.model.total_bytes
        size = size or (entry.weights_bytes if entry else None)
        if size and (heavy := too_heavy(s.settings, s.placement, size)):
            return fail(f"{heavy.found}, not {heavy.expected}", heavy.remedy, heavy.subject)
        what = "the model is no DeepSeek-V4" if s.around.config else "nothing is known of the model before it is here"
        return ok(f"{what}: no prediction")
    pinned = pinned_tokens(s.settings, s.profile, s.placement) if s.profile else {}
    problems = misfits(s.settings, s.placement, shape, pinned)
    if problems:
        first = problems[0]
        return fail(f"{first.found}, not {first.expected}", first.remedy, first.subject)
    return ok("; ".join(table(estimates(s.settings, s.placement, shape, pinned), s.settings.context_length)))


CHECK = Check(
    name="memory-fit",
    place=40,
    symptom='"Not enough memory. Please try to increase --mem-fraction-static" after the load, or OOM under load',
    why="Weights, KV pools and graphs are known before the load; the engine finds out only after loading 146 GB.",
    source="SGLang 0.5.23 pool_configurator.py (DSV4PoolConfigurator); sglang#35777, PR#38861",
    run=_run,
    expected="settings that fit the cards",
    fatal=True,
    error=SettingsError,
)
