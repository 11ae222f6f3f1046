"""KV of returning prompts in host memory: the engine's HiCache on the servers that prefill. Pure.

What SGLang 0.5.23 does with this model (mem_cache/hybrid_cache/hybrid_pool_assembler.py):

* the host pools are a ratio of the card's own, `--hicache-ratio`; `--hicache-size` is refused for DeepSeek-V4, and with
  neither the engine's automatic size is (mem_cache/hicache_auto_size.py);
* every rank keeps its own copy, because every rank has all of the KV: the ratio times the pools of all cards;
* mirrored are the compressed entries, the indexer's keys, the windows and the state that follows them, not the rings of
  the layers that compress by 128;
* decode has no prefix cache, so there is nothing to keep for it;
* the layout of SGLANG_OPT_SM120_DIRECT_SWA_KV can't be mirrored.
"""

from __future__ import annotations

import math
from typing import Any

from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.memory.model import Estimate, bytes_per_token, estimate, window_bytes
from dsv4_pd.plan.memory.pinned import token_limit
from dsv4_pd.plan.memory.plan import load_of
from dsv4_pd.plan.model.shape import Shape
from dsv4_pd.plan.placement.place import Placement, RolePlacement
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings

GB = 10**9
DIRECT_WINDOWS = "SGLANG_OPT_SM120_DIRECT_SWA_KV"
ENGINE_RESERVE = 10 << 30  # HICACHE_HOST_MEMORY_RESERVE_BYTES: the engine leaves it to the rest of the machine
_STEP = 1e-4


def mirrored_bytes(shape: Shape, card: Estimate, pinned: int | None = None) -> float:
    """Bytes of one card's pools that have a copy on the host at a ratio of 1; `pinned`: most tokens of the pool."""
    tokens = card.tokens if pinned is None else min(card.tokens, pinned)
    slots = tokens * card.window_ratio
    return tokens * bytes_per_token(shape, card.load) + slots * window_bytes(shape, card.load)


def ratio(settings: Settings, role: RolePlacement, shape: Shape | None, pinned: int | None = None) -> float | None:
    """The host pools' share of the card's, rounded down; None where nothing is kept."""
    if settings.kv_offload_gb is None or shape is None or role.role == "decode" or not role.gpus:
        return None
    card = _card(settings, role, shape)
    whole = mirrored_bytes(shape, card, pinned) * role.tensor_parallel
    return math.floor(settings.kv_offload_gb * GB / whole / _STEP) * _STEP if whole else None


def flags(settings: Settings, profile: Profile, role: RolePlacement, shape: Shape | None) -> dict[str, Any]:
    """The engine's flags for one server."""
    found = ratio(settings, role, shape, token_limit(settings, profile, role))
    return {} if not found else {"enable-hierarchical-cache": True, "hicache-ratio": round(found, 4)}


def host_bytes(settings: Settings, placement: Placement) -> float:
    """What all servers that prefill keep on the host together, as the operator asked for it."""
    keepers = sum(role.role != "decode" and bool(role.gpus) for role in placement.roles)
    return (settings.kv_offload_gb or 0) * GB * keepers


def lines(settings: Settings, profile: Profile, placement: Placement, shape: Shape | None) -> list[str]:
    """A line for each server that keeps KV on the host, for `plan`."""
    found = []
    for role in placement.roles:
        pinned = token_limit(settings, profile, role)
        if (share := ratio(settings, role, shape, pinned)) and shape:
            held = _card(settings, role, shape).tokens
            tokens = int((held if pinned is None else min(held, pinned)) * share)
            found.append(
                f"{role.name}: {settings.kv_offload_gb:g} GB of host memory keep KV of {tokens:,} tokens more "
                f"({share:.4g} of the cards' own; each of {role.tensor_parallel} ranks keeps a copy)"
            )
    return found


def refusal(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """Why the setting can't be kept: what was found, what was expected, the remedy."""
    if settings.kv_offload_gb is None:
        return None
    asked = f"{settings.kv_offload_gb:g} GB"
    if profile.device != "cuda":
        return f"{asked} with the profile {profile.name}", "GPUs: the engine copies KV with CUDA", _UNSET
    if around.shape is None:
        expected = "a DeepSeek-V4 whose config.json is known: the engine takes a share of the cards' KV, not a size"
        return f"{asked} for {settings.model}", expected, f"run `dsv4-pd download` first, or {_UNSET}"
    if around.environ.get(DIRECT_WINDOWS, "").lower() in ("1", "true", "yes", "y"):
        return f"{asked} with {DIRECT_WINDOWS}", "the usual layout of windows", f"unset {DIRECT_WINDOWS}, or {_UNSET}"
    return None


_UNSET = "unset DSV4_KV_OFFLOAD_GB"


def _card(settings: Settings, role: RolePlacement, shape: Shape) -> Estimate:
    return estimate(shape, load_of(settings, role, shape), min(gpu.memory_bytes for gpu in role.gpus))
