"""Rules of the engine that hold between settings, profile and model: mirrored, so that a start is refused at once.

Each is the engine's own (SGLang 0.5.23, where its comment says); `plan --resolve` asks the engine itself, and a test
holds both against each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dsv4_pd.errors import Problem
from dsv4_pd.plan.memory_model import PAGE
from dsv4_pd.plan.profiles import Profile
from dsv4_pd.plan.surroundings import Surroundings
from dsv4_pd.settings.schema import Settings, env_name

_CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
_CONTEXT_UNKNOWN = 2048  # what the engine takes for a model that says nothing
_OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


@dataclass(frozen=True, slots=True)
class CrossRule:
    """`wrong` says what was found, what was expected, and the remedy; None where the rule is kept."""

    field: str
    accepts: str
    wrong: Callable[[Settings, Profile, Surroundings], tuple[str, str, str] | None]


def _served_name(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """check_server_args of arg_groups/validation_hook.py."""
    name = settings.served_model_name or settings.model
    if ":" not in name:
        return None
    remedy = "set DSV4_SERVED_MODEL_NAME to a name without a colon"
    return f"{name!r}, the model's own name" if not settings.served_model_name else repr(name), "no colon in it", remedy


def _chunk(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """check_server_args: divisible by the page size, which is forced for this model on a GPU."""
    size = settings.chunked_prefill_size
    if profile.device != "cuda" or size % PAGE == 0:
        return None
    nearest = max(PAGE, round(size / PAGE) * PAGE)
    return str(size), f"a multiple of {PAGE}, the KV page", f"set DSV4_CHUNKED_PREFILL_SIZE={nearest}"


def _context(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """ModelConfig._derive_context_length of configs/model_config.py."""
    most = model_context(read_config(around))
    allowed = around.environ.get(_OVERRIDE, "").lower() in ("1", "true", "yes", "y")
    if most is None or settings.context_length <= most or allowed:
        return None
    return str(settings.context_length), f"at most {most}, the model's own", f"set DSV4_CONTEXT_LENGTH={most}"


RULES = (
    CrossRule("served_model_name", "the model's name has no colon, or a name is given", _served_name),
    CrossRule("chunked_prefill_size", f"on a GPU a multiple of {PAGE}, the KV page", _chunk),
    CrossRule("context_length", "at most the context of the model's config.json", _context),
)


def problems(settings: Settings, profile: Profile, around: Surroundings) -> list[Problem]:
    """Every rule that is broken."""
    return [Problem(env_name(rule.field), *found) for rule in RULES if (found := rule.wrong(settings, profile, around))]


def read_config(around: Surroundings) -> Mapping[str, Any]:
    """The model's config.json; empty where there is none to read, which is the model check's to say."""
    if around.model.path is None:
        return {}
    try:
        found = json.loads((around.model.path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def model_context(config: Mapping[str, Any]) -> int | None:
    """Tokens of context that the engine derives from a config.json (get_context_length, hf_transformers/common.py).

    >>> model_context({"max_position_embeddings": 4096, "rope_scaling": {"factor": 4}})
    16384
    >>> model_context({"max_position_embeddings": 8, "rope_scaling": {"factor": 4, "rope_type": "llama3"}})
    8
    """
    if not config:
        return None
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    scaling = scaling if isinstance(scaling, dict) else {}
    plain = "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3"
    factor = 1 if plain else scaling.get("factor", 1)
    for key in _CONTEXT_KEYS:
        value = config.get(key)
        if isinstance(value, int) and isinstance(factor, int | float):
            return int(factor * value)
    return _CONTEXT_UNKNOWN
