"""Rules of the engine that hold between settings, profile and model: mirrored, so that a start is refused at once.

Each is the engine's own (SGLang 0.5.23, where its comment says); `plan --resolve` asks the engine itself, and a test
holds both against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dsv4_pd.errors import Problem
from dsv4_pd.plan.memory_model import PAGE
from dsv4_pd.plan.profiles import Profile
from dsv4_pd.plan.surroundings import Surroundings
from dsv4_pd.settings.schema import Settings, env_name

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
    if around.model_context is None or around.environ.get(_OVERRIDE, "").lower() in ("1", "true", "yes", "y"):
        return None
    most = around.model_context
    if settings.context_length <= most:
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


def server_context(settings: Settings) -> int:
    """The engine's own context length: with it, exactly the setting is usable.

    Of its context the engine keeps six tokens to itself (tp_worker.py get_worker_info: one, and five of the input). It
    is given a page more, so that a length in pages stays one, and the gate holds the setting's limit exactly.
    """
    return settings.context_length + PAGE


def context_env(settings: Settings, around: Surroundings) -> dict[str, str]:
    """The limit for the gate; and leave for that page, where the setting is all that the model has."""
    env = {"DSV4_CONTEXT_LIMIT": str(settings.context_length)}
    beyond = around.model_context is not None and server_context(settings) > around.model_context
    return env | ({_OVERRIDE: "1"} if beyond else {})
