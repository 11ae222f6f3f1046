"""What the Hub tells of a model before its weights come: enough to refuse what these cards can't serve. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.model import config as model_config
from dsv4_pd.plan.model import context as model_context
from dsv4_pd.plan.model.shape import shape_of


@dataclass(frozen=True, slots=True)
class Ahead:
    """A model that is not here."""

    weights_bytes: int  # of the files that its index names, by the Hub's list
    config: Mapping[str, Any] | None  # its config.json; None: it has none

    def seen_in(self, around: Surroundings) -> Surroundings:
        """The surroundings with what is known now; what lies on this machine says more."""
        if around.model.path is not None:
            return around
        model = replace(around.model, total_bytes=self.weights_bytes)
        if self.config is None:
            return replace(around, model=model)
        return replace(
            around,
            model=model,
            config=model_config.sound(self.config),
            model_context=model_context.derived(self.config),
            shape=shape_of(self.config, self.weights_bytes),
        )
