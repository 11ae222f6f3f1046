"""How a card's memory is spent, computed without a GPU: weights, KV pools, graphs, headroom, tokens of KV.

The shapes come from the model's own config.json (and its index, for the total), the pool rules are those of the
engine (SGLang 0.5.23, `srt/model_executor/pool_configurator.py`, class DSV4PoolConfigurator); a test runs that class
under the plan's own command line. What no rule gives (context, activations) is marked as an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dsv4_pd.plan.model.shape import FP32, Shape, weight_bytes
from dsv4_pd.settings.layout import RoleName

GIB = 1 << 30
MIB = 1 << 20
PAGE = 256  # tokens; the engine forces it for this model
_WINDOW = 128
FEWEST_WINDOW_SLOTS = _WINDOW + PAGE  # the engine refuses to start with so few (`validate_swa_pool_size`)
_EVICTION_INTERVAL = 128  # SGLANG_SWA_EVICTION_INTERVAL
# Sliding-window slots per token of KV where no ratio is given: the engine sets it for this model, takes it for the
# operator's own choice from then on, and so never sizes the windows by the number of requests.
ENGINE_WINDOW_RATIO = 0.1
_RATIO_STEP = 1e-6
# The budget is an estimate: a card that gives the pools a tenth less still holds what the running requests need.
_WINDOW_MARGIN = 1.1
# The driver keeps 636 MiB of the 97,887 MiB for itself (nvidia-smi -q of an idle card, rtx6kpro asus-report log).
DRIVER_RESERVED = 636 * MIB
# CUDA context and NCCL buffers that exist before the weights: an estimate, not measured on this card.
CONTEXT = 600 * MIB
# Activations per prefilled token: about 12 live copies of the 4 residual streams and of the six routed experts'
# inputs and outputs in bf16. An estimate; the engine itself reserves 1.5 MiB.
ACTIVATION_PER_TOKEN = 0.3 * MIB
GRAPH_PER_REQUEST = 2 * MIB  # the engine's own reserve per captured request
WORKSPACE = 512 * MIB  # the engine's constant for backend metadata

EAGLE_TOKENS = 4  # of one step, as our own flags ask for


@dataclass(frozen=True, slots=True)
class Load:
    """What the settings ask of one server."""

    role: RoleName
    tensor_parallel: int
    fraction: float
    max_running: int
    chunk: int
    speculative: bool = False
    drafted: int = EAGLE_TOKENS  # tokens that one step of speculative decoding may add to a request
    window_ratio: float | None = None  # window slots per token of KV; None: the smallest that serves `max_running`
    most_tokens: int | None = None  # a pinned pool: the engine takes no more tokens, however much memory is left

    @property
    def draft_tokens(self) -> int:
        """Tokens that one step may add to a request."""
        return self.drafted if self.speculative else 1

    @property
    def extra_slots(self) -> int:
        """Slots that a decode server keeps for requests whose KV is on its way."""
        return 2 * self.max_running if self.role == "decode" and self.max_running <= 32 else 0


def _paged(slots: int) -> float:
    """Bytes of one KV slot in pages of so many: 576 + 8 bytes, pages padded to 576."""
    return -(-slots * 584 // 576) * 576 / slots


def bytes_per_token(s: Shape, load: Load) -> float:
    """KV bytes that one token of context costs: compressed entries and the indexer's keys."""
    four = (_paged(PAGE // 4) + s.index_dim + s.index_dim // 128 * 4) / 4
    token = s.count(4) * four + s.count(128) * _paged(PAGE // 128) / 128
    return token * _draft_inflation(s, load)


def _draft_inflation(s: Shape, load: Load) -> float:
    return (len(s.ratios) + 1) / len(s.ratios) if load.speculative else 1.0


def window_slots(load: Load) -> int:
    """Sliding-window slots: what the running requests can hold, plus tails of cached prefixes.

    The engine's own worst case (`compute_swa_request_cap`) and its own default of four tails a request.
    """
    trailing = _WINDOW + _EVICTION_INTERVAL * load.draft_tokens + PAGE
    allocated = 2 * load.draft_tokens if load.speculative else PAGE
    held = (trailing + allocated) * load.max_running
    if load.role == "decode":
        held += (_WINDOW + PAGE) * load.extra_slots
    else:
        held += 2 * load.chunk + PAGE
    tails = 0 if load.role == "decode" else 4 * load.max_running * (_WINDOW + PAGE)
    return -(-(held + tails) // PAGE) * PAGE


def window_bytes(s: Shape, load: Load) -> float:
    """KV bytes of one sliding-window slot in every layer, with the state of the compressors that follows it."""
    ring = 16 if load.speculative else 8  # get_compress_state_ring_size(4)
    state = ring / PAGE * 4 * (s.head_dim + s.index_dim) * FP32
    return (_paged(PAGE) * len(s.ratios) + state * s.count(4)) * _draft_inflation(s, load)


def state_bytes(s: Shape, load: Load) -> float:
    """KV bytes of what the layers that compress by 128 have pending: a ring for each request that can be there."""
    ring = 256 if load.speculative else 128  # get_compress_state_ring_size(128)
    rows = (load.max_running + load.extra_slots + 1) * ring + ring + 1
    return -(-rows // 128) * 128 * 2 * s.head_dim * FP32 * s.count(128)


def window_ratio(s: Shape, load: Load, budget: float) -> float:
    """Window slots per token of KV: the load's own, else the smallest that serves its requests within a budget.

    Every slot more than that costs eight tokens of KV. In a pinned pool it is a share of that pool's tokens: a share of
    what the memory would hold leaves less than one request's window there, which the engine refuses at its start.
    """
    if load.window_ratio is not None:
        return load.window_ratio
    slots = window_slots(load) * _WINDOW_MARGIN
    left = budget - state_bytes(s, load) - slots * window_bytes(s, load)
    if left <= 0:
        return 1.0  # not even the windows fit
    tokens = left / bytes_per_token(s, load)
    steps = math.ceil(slots / min(tokens, load.most_tokens or tokens) / _RATIO_STEP)
    return min(1.0, round(steps * _RATIO_STEP, 6))


def pool_tokens(s: Shape, load: Load, budget: float) -> int:
    """Tokens of KV that a budget holds, or that the pool is pinned to; 0 when not even the fixed part fits."""
    token = bytes_per_token(s, load) + window_ratio(s, load, budget) * window_bytes(s, load)
    held = int(max(budget - state_bytes(s, load), 0) / token)
    return min(held, load.most_tokens or held) // PAGE * PAGE


@dataclass(frozen=True, slots=True)
class Estimate:
    """One card of one role, in bytes; `tokens` is the role's KV capacity."""

    load: Load
    memory: float
    weights: float
    kv: float
    runtime: float  # activations, graphs, workspaces: what must fit beside the static share
    headroom: float  # what is left when all of it is used
    tokens: int
    window_ratio: float
    tokens_by_default: int  # with the engine's own window ratio

    @property
    def used(self) -> float:
        """What nvidia-smi will show."""
        return self.memory - self.headroom


def estimate(s: Shape, load: Load, memory: float) -> Estimate:
    """A card's memory under a load. `memory` is the driver's total."""
    free = memory - DRIVER_RESERVED - CONTEXT
    weights = weight_bytes(s, load.tensor_parallel, speculative=load.speculative)
    kv = free * load.fraction - weights
    runtime = WORKSPACE + _activations(load) + (0 if load.role == "prefill" else load.max_running * GRAPH_PER_REQUEST)
    tokens = pool_tokens(s, load, kv)
    headroom = free - weights - max(kv, 0.0) - runtime
    by_default = pool_tokens(s, replace(load, window_ratio=ENGINE_WINDOW_RATIO), kv)
    ratio = window_ratio(s, load, kv)
    return Estimate(load, memory - DRIVER_RESERVED, weights, kv, runtime, headroom, tokens, ratio, by_default)


def _activations(load: Load) -> float:
    tokens = max(load.max_running * load.draft_tokens, 2048) if load.role == "decode" else load.chunk
    return tokens * ACTIVATION_PER_TOKEN


def needed_fraction(s: Shape, load: Load, memory: float, tokens: int) -> float:
    """The memory fraction that holds the given number of KV tokens, rounded up to a hundredth."""
    free = memory - DRIVER_RESERVED - CONTEXT
    pools = state_bytes(s, load) + (tokens + PAGE) * bytes_per_token(s, load)
    if load.window_ratio is None:
        pools += window_slots(load) * _WINDOW_MARGIN * window_bytes(s, load)
    else:
        pools += (tokens + PAGE) * load.window_ratio * window_bytes(s, load)
    need = weight_bytes(s, load.tensor_parallel, speculative=load.speculative) + pools
    return -(-need * 100 // free) / 100
