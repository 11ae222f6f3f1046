"""What can't be told of a model before it runs: said by name, instead of a guess. Pure."""

from __future__ import annotations

from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.model import checkpoint


def unjudged(around: Surroundings) -> tuple[str, ...]:
    """For a model of the catalogue, what no public source tells; for another, what its config.json leaves open."""
    if around.entry is not None:
        return around.entry.unknown
    config = around.config
    if config is None:
        return ("everything, until its config.json is here",)
    open_ = []
    if around.shape is None:
        open_.append(f"memory: its kind, {config.get('model_type', 'unnamed')!r}, is none that is known here")
        open_.append("reasoning and tool calls: they are read as DeepSeek-V4 writes them")
    elif strange := checkpoint.foreign(config):
        open_.append(f"its experts: {strange} is none that is known here")
    elif checkpoint.expert_format(config) is None and around.model.total_bytes is None:
        open_.append("the format of its experts, taken to be MXFP4")
    if around.model_context is None:
        open_.append("its longest context")
    return tuple(open_)
