"""The memory model applied to a plan: one estimate a role, and what can't fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dsv4_pd.errors import Problem
from dsv4_pd.plan.flags.extra_args import engine_flags
from dsv4_pd.plan.guard.config import MemoryBudget
from dsv4_pd.plan.memory.model import (
    EAGLE_TOKENS,
    ENGINE_WINDOW_RATIO,
    FEWEST_WINDOW_SLOTS,
    GIB,
    PAGE,
    Estimate,
    Load,
    estimate,
    needed_fraction,
)
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.place import Placement, RolePlacement
from dsv4_pd.settings.schema import Settings

_HIGHEST_FRACTION = 0.95


def load_of(
    settings: Settings, role: RolePlacement, shape: Shape | None = None, pinned: Mapping[str, int] | None = None
) -> Load:
    """What the settings ask of a member, of a model of this shape; `pinned`: plan/memory/pinned.py."""
    decode = role.role != "prefill"
    return Load(
        role=role.role,
        tensor_parallel=role.tensor_parallel,
        fraction=settings.decode_mem_fraction if decode else settings.prefill_mem_fraction,
        max_running=settings.max_running_requests,
        chunk=settings.chunked_prefill_size,
        speculative=settings.speculative in ("eagle", "dspark"),
        drafted=_drafted(settings, role, shape),
        window_ratio=settings.swa_full_tokens_ratio,
        most_tokens=(pinned or {}).get(role.name),
    )


def _drafted(settings: Settings, role: RolePlacement, shape: Shape | None) -> int:
    """Tokens of one step: DSpark's block, the checkpoint's or the operator's (_handle_dspark of arg_groups/
    speculative_hook.py), and the one that is not drafted.
    """
    if settings.speculative != "dspark" or shape is None:
        return EAGLE_TOKENS
    said = engine_flags(settings.extra_args(role.role)).get("--speculative-dspark-block-size", ())
    return int(said[0]) + 1 if said and said[0].isdecimal() else shape.block + 1  # the engine refuses another one


def estimates(
    settings: Settings, placement: Placement, shape: Shape, pinned: Mapping[str, int] | None = None
) -> tuple[Estimate, ...]:
    """One estimate for each role on GPUs; the smallest card of a group counts."""
    return tuple(
        estimate(shape, load_of(settings, role, shape, pinned), min(gpu.memory_bytes for gpu in role.gpus))
        for role in placement.roles
        if role.gpus
    )


def window_ratio(
    settings: Settings, role: RolePlacement, shape: Shape | None, pinned: Mapping[str, int] | None = None
) -> float | None:
    """The sliding-window ratio that the plan gives a role on GPUs; None where the model is not known."""
    if settings.swa_full_tokens_ratio is not None:
        return settings.swa_full_tokens_ratio
    if shape is None or not role.gpus:
        return None
    load = load_of(settings, role, shape, pinned)
    return estimate(shape, load, min(gpu.memory_bytes for gpu in role.gpus)).window_ratio


def misfits(
    settings: Settings, placement: Placement, shape: Shape, pinned: Mapping[str, int] | None = None
) -> tuple[Problem, ...]:
    """Settings that can't fit: no room for the longest request's KV, or none for the work beside it."""
    found = []
    on_gpus = [role for role in placement.roles if role.gpus]
    for role, card in zip(on_gpus, estimates(settings, placement, shape, pinned), strict=True):
        name = _fraction_of(role)
        if card.tokens < settings.context_length:
            found.append(_too_small(settings, role, card, shape, name))
        elif (slots := int(card.tokens * card.window_ratio) // PAGE * PAGE) <= FEWEST_WINDOW_SLOTS:
            found.append(_too_few_slots(card, role, slots))
        elif card.headroom < 0:
            over = f"{settings_value(settings, role):g} on {role.name}: {-card.headroom / GIB:.1f} GiB too much"
            found.append(
                Problem(name, over, f"room for {card.runtime / GIB:.1f} GiB of activations and graphs",
                        f"lower {name}, DSV4_CHUNKED_PREFILL_SIZE or DSV4_MAX_RUNNING_REQUESTS"))  # fmt: skip
    return tuple(found)


def _too_few_slots(card: Estimate, role: RolePlacement, slots: int) -> Problem:
    return Problem(
        "DSV4_SWA_FULL_TOKENS_RATIO",
        f"{card.window_ratio:g} of {card.tokens} tokens on {role.name}: {slots} window slots",
        f"more than {FEWEST_WINDOW_SLOTS}; with fewer the engine does not start",
        "leave it unset",
    )


def budgets(settings: Settings, placement: Placement, shape: Shape) -> dict[str, MemoryBudget]:
    """Member -> what advice on its memory rests on."""
    found = {}
    for role in (role for role in placement.roles if role.gpus):
        memory = min(gpu.memory_bytes for gpu in role.gpus)
        card = estimate(shape, load_of(settings, role, shape), memory)
        found[role.name] = MemoryBudget(
            setting=_fraction_of(role),
            fraction=card.load.fraction,
            least=needed_fraction(shape, card.load, memory, settings.context_length),
            card=memory,
            weights=card.weights,
            working="DSV4_MAX_RUNNING_REQUESTS" if role.role == "decode" else "DSV4_CHUNKED_PREFILL_SIZE",
        )
    return found


def _fraction_of(role: RolePlacement) -> str:
    return f"DSV4_{'PREFILL' if role.role == 'prefill' else 'DECODE'}_MEM_FRACTION"


def too_heavy(settings: Settings, placement: Placement, total_bytes: int) -> Problem | None:
    """A model of which only the size is known: its weights alone are more than a role's cards hold. On a CPU nothing
    is said: the host's memory is no part of this model.
    """
    for role in (one for one in placement.roles if one.gpus):
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
    pinned = card.load.most_tokens
    if pinned is not None and pinned < settings.context_length:
        return Problem("--max-total-tokens", f"{pinned} on {role.name}", f"{settings.context_length} "
                       "(DSV4_CONTEXT_LENGTH) or more", "raise it, or lower DSV4_CONTEXT_LENGTH")  # fmt: skip
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
