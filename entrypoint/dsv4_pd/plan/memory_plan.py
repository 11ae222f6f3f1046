"""The memory model applied to a plan: one estimate a role, and what can't fit. Pure."""

from __future__ import annotations

from dsv4_pd.errors import Problem
from dsv4_pd.plan.memory_model import (
    EAGLE_TOKENS,
    ENGINE_WINDOW_RATIO,
    GIB,
    Estimate,
    Load,
    Shape,
    estimate,
    needed_fraction,
)
from dsv4_pd.plan.placement import Placement, RolePlacement
from dsv4_pd.settings.schema import Settings

_HIGHEST_FRACTION = 0.95


def load_of(settings: Settings, role: RolePlacement, shape: Shape | None = None) -> Load:
    """What the settings ask of a role, of a model of this shape."""
    decode = role.role != "prefill"
    return Load(
        role=role.role,
        tensor_parallel=role.tensor_parallel,
        fraction=settings.decode_mem_fraction if decode else settings.prefill_mem_fraction,
        max_running=settings.max_running_requests,
        chunk=settings.chunked_prefill_size,
        speculative=settings.speculative in ("eagle", "dspark"),
        drafted=shape.block + 1 if shape and settings.speculative == "dspark" else EAGLE_TOKENS,
        window_ratio=settings.swa_full_tokens_ratio,
    )


def estimates(settings: Settings, placement: Placement, shape: Shape) -> tuple[Estimate, ...]:
    """One estimate for each role on GPUs; the smallest card of a group counts."""
    return tuple(
        estimate(shape, load_of(settings, role, shape), min(gpu.memory_bytes for gpu in role.gpus))
        for role in placement.roles
        if role.gpus
    )


def window_ratio(settings: Settings, role: RolePlacement, shape: Shape | None) -> float | None:
    """The sliding-window ratio that the plan gives a role on GPUs; None where the model is not known."""
    if settings.swa_full_tokens_ratio is not None:
        return settings.swa_full_tokens_ratio
    if shape is None or not role.gpus:
        return None
    return estimate(shape, load_of(settings, role, shape), min(gpu.memory_bytes for gpu in role.gpus)).window_ratio


def misfits(settings: Settings, placement: Placement, shape: Shape) -> tuple[Problem, ...]:
    """Settings that can't fit: no room for the longest request's KV, or none for the work beside it."""
    found = []
    for role, card in zip(placement.roles, estimates(settings, placement, shape), strict=True):
        name = f"DSV4_{'PREFILL' if role.role == 'prefill' else 'DECODE'}_MEM_FRACTION"
        if card.tokens < settings.context_length:
            found.append(_too_small(settings, role, card, shape, name))
        elif card.headroom < 0:
            over = f"{settings_value(settings, role):g} on {role.name}: {-card.headroom / GIB:.1f} GiB too much"
            found.append(
                Problem(name, over, f"room for {card.runtime / GIB:.1f} GiB of activations and graphs",
                        f"lower {name}, DSV4_CHUNKED_PREFILL_SIZE or DSV4_MAX_RUNNING_REQUESTS"))  # fmt: skip
    return tuple(found)


def too_heavy(settings: Settings, placement: Placement, total_bytes: int) -> Problem | None:
    """A model of which only the size is known: its weights alone are more than a role's cards hold."""
    for role in placement.roles:
        each = total_bytes / role.tensor_parallel
        room = min(gpu.memory_bytes for gpu in role.gpus) * settings_value(settings, role)
        if each > room:
            found = f"{each / GIB:.1f} GiB of weights on each of {role.tensor_parallel} cards of {role.name}"
            return Problem("DSV4_MODEL", found, f"less than {room / GIB:.1f}", "choose a smaller model, or more GPUs")
    return None


def settings_value(settings: Settings, role: RolePlacement) -> float:
    """The role's memory fraction."""
    return load_of(settings, role).fraction


def _too_small(settings: Settings, role: RolePlacement, card: Estimate, shape: Shape, name: str) -> Problem:
    memory = min(gpu.memory_bytes for gpu in role.gpus)
    needed = needed_fraction(shape, card.load, memory, settings.context_length)
    lower = "lower DSV4_CONTEXT_LENGTH and DSV4_MAX_RUNNING_REQUESTS"
    remedy = f"set {name}={needed:g}, or {lower}" if needed <= _HIGHEST_FRACTION else f"{lower}, or give it more GPUs"
    return Problem(
        name,
        f"{card.load.fraction:g} on {role.name}: {card.weights / GIB:.1f} GiB of weights on each of "
        f"{role.tensor_parallel} cards leave KV for {card.tokens} tokens",
        f"{settings.context_length} (DSV4_CONTEXT_LENGTH)",
        remedy,
    )


def table(cards: tuple[Estimate, ...], context_length: int, names: tuple[str, ...] = ()) -> list[str]:
    """A line a member for `plan` and `doctor`; called by its role unless `names` are given."""
    return [
        f"{name}: {card.weights / GIB:.1f} GiB weights + {max(card.kv, 0) / GIB:.1f} KV + "
        f"{card.runtime / GIB:.1f} activations and graphs, {card.headroom / GIB:.1f} left of "
        f"{card.memory / GIB:.1f} a card; KV for {card.tokens:,} tokens, {card.tokens // context_length} longest "
        f"requests at once (window ratio {card.window_ratio:g}; the engine's own {ENGINE_WINDOW_RATIO:g} gives "
        f"{card.tokens_by_default:,})"
        for name, card in zip(names or [card.load.role for card in cards], cards, strict=True)
    ]
