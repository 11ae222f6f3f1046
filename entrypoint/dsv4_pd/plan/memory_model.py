"""How a card's memory is spent, computed without a GPU: weights, KV pools, graphs, headroom, tokens of KV.

The shapes come from the model's own config.json (and its index, for the total), the pool rules are those of the
engine (SGLang 0.5.23, `srt/model_executor/pool_configurator.py`, class DSV4PoolConfigurator); a test runs that class
under the plan's own command line. What no rule gives (context, activations) is marked as an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dsv4_pd.plan import checkpoint, model_config
from dsv4_pd.settings.layout import RoleName

GIB = 1 << 30
MIB = 1 << 20
PAGE = 256  # tokens; the engine forces it for this model
_WINDOW = 128
FEWEST_WINDOW_SLOTS = _WINDOW + PAGE  # the engine refuses to start with so few (`validate_swa_pool_size`)
_EVICTION_INTERVAL = 128  # SGLANG_SWA_EVICTION_INTERVAL
_FP32 = 4
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
MXFP4 = 0.5 + 1 / 32  # bytes of a weight: 4 bits, one scale byte for 32
NVFP4 = 0.5 + 1 / 16
FP8 = 1.0  # a scale byte for 128 x 128
EXPERTS = {"mxfp4": MXFP4, "nvfp4": NVFP4, "fp8": FP8}


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's dimensions; the defaults are DeepSeek-V4-Flash."""

    layers: int = 43
    hidden: int = 4096
    heads: int = 64
    head_dim: int = 512
    rope_dim: int = 64
    q_lora: int = 1024
    o_groups: int = 8
    o_lora: int = 1024
    index_heads: int = 64
    index_dim: int = 128
    experts: int = 256
    shared_experts: int = 1
    top_k: int = 6
    expert_inner: int = 2048
    vocab: int = 129280
    streams: int = 4  # hyper-connection streams
    ratios: tuple[int, ...] = field(default=(0, 0, *(4 if n % 2 == 0 else 128 for n in range(2, 43))))
    total_bytes: int | None = None  # of the checkpoint, from its index
    expert_byte: float = MXFP4  # bytes of one weight of a routed expert
    stages: int = 1  # layers of the speculative block
    markov: int = 0  # rank of DSpark's head; 0: an MTP layer
    block: int = 0  # tokens that DSpark drafts at once

    def count(self, ratio: int) -> int:
        """Layers that compress by a ratio."""
        return sum(1 for found in self.ratios if found == ratio)


def shape_of(config: Mapping[str, Any], total_bytes: int | None = None) -> Shape | None:
    """The shape in a config.json; None for another kind of model, or where a value is odd (plan/model_config.py)."""
    if model_config.odd_keys(config):
        return None
    config = model_config.sound(config)
    if config.get("model_type") != model_config.OURS or not config.get("compress_ratios"):
        return None
    found = {ours: config[theirs] for ours, theirs in model_config.SHAPE.items() if theirs in config}
    layers = found.get("layers", Shape().layers)
    shape = Shape(
        **found,
        ratios=tuple(config["compress_ratios"][:layers]),
        total_bytes=total_bytes,
        stages=checkpoint.draft_stages(config),
        markov=config.get("dspark_markov_rank") or 0,
        block=config.get("dspark_block_size") or 0,
    )
    return replace(shape, expert_byte=_expert_byte(shape, checkpoint.expert_format(config)))


def _expert_byte(s: Shape, named: str | None) -> float:
    """Bytes of one weight of an expert, by the format that config.json names. Whether it is 4 bits or 8 is decided by
    the files, as it is by the engine: a conversion may have kept the original's config.json.
    """
    said = EXPERTS.get(named or "", MXFP4)
    if s.total_bytes is None:
        return said
    total, few = s.total_bytes, MXFP4 if said == FP8 else said
    sizes = {byte: weight_bytes(replace(s, expert_byte=byte), 1, speculative=True) for byte in (few, FP8)}
    return min(sizes, key=lambda byte: abs(sizes[byte] - total))


def _dense_layer(s: Shape, ratio: int) -> tuple[float, float]:
    """Bytes of a layer without its routed experts: (split over the ranks, on every rank)."""
    attention = s.heads * s.head_dim
    split = (
        attention * s.q_lora  # wq_b, fp8
        + s.o_lora * attention * 2  # wo_a, kept in bf16 on sm_120
        + s.hidden * s.o_groups * s.o_lora  # wo_b, fp8
        + s.shared_experts * 3 * s.hidden * s.expert_inner  # fp8
    )
    every = (
        (s.q_lora + s.head_dim) * s.hidden  # wq_a and wkv, fp8
        + s.experts * s.hidden * 2  # gate, bf16
        + 2 * (2 + s.streams) * s.streams * s.streams * s.hidden * _FP32  # hyper-connections
    )
    if ratio == 4:
        every += s.index_heads * s.index_dim * s.q_lora + s.index_heads * s.hidden * 2
        every += 2 * s.hidden * 2 * (s.head_dim + s.index_dim) * 2  # overlapping compressors, bf16
    elif ratio == 128:
        every += 2 * s.hidden * s.head_dim * 2
    return split, every


def weight_bytes(s: Shape, tensor_parallel: int, *, speculative: bool = False) -> float:
    """Weights on one card. The draft's layers don't compress, and its experts are MXFP4 whatever the model's are."""
    stages = s.stages if speculative else 0
    dense = [_dense_layer(s, ratio) for ratio in (*s.ratios, *(0,) * stages)]
    experts = 3 * s.hidden * s.expert_inner * s.experts * (len(s.ratios) * s.expert_byte + stages * MXFP4)
    split = sum(part for part, _ in dense) + experts + 2 * s.vocab * s.hidden * 2
    head = 2 * s.vocab * s.markov * 2 + s.stages * s.hidden * s.hidden * 2 if speculative and s.markov else 0
    return split / tensor_parallel + sum(every for _, every in dense) + head


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
    state = ring / PAGE * 4 * (s.head_dim + s.index_dim) * _FP32
    return (_paged(PAGE) * len(s.ratios) + state * s.count(4)) * _draft_inflation(s, load)


def state_bytes(s: Shape, load: Load) -> float:
    """KV bytes of what the layers that compress by 128 have pending: a ring for each request that can be there."""
    ring = 256 if load.speculative else 128  # get_compress_state_ring_size(128)
    rows = (load.max_running + load.extra_slots + 1) * ring + ring + 1
    return -(-rows // 128) * 128 * 2 * s.head_dim * _FP32 * s.count(128)


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
