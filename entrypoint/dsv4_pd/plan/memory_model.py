"""How a card's memory is spent, computed without a GPU: weights, KV pools, graphs, headroom, tokens of KV.

The shapes come from the model's own config.json (and its index, for the total), the pool rules are those of the
engine (SGLang 0.5.23, `srt/model_executor/pool_configurator.py`, class DSV4PoolConfigurator); a test runs that class
on the same numbers. What no rule gives (context, activations) is marked as an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

GIB = 1 << 30
MIB = 1 << 20
PAGE = 256  # tokens; the engine forces it for this model
_WINDOW = 128
_EVICTION_INTERVAL = 128  # SGLANG_SWA_EVICTION_INTERVAL
_FP32 = 4
# The driver keeps 636 MiB of the 97,887 MiB for itself (nvidia-smi -q of an idle card, rtx6kpro asus-report log).
DRIVER_RESERVED = 636 * MIB
# CUDA context and NCCL buffers that exist before the weights: an estimate, not measured on this card.
CONTEXT = 600 * MIB
# Activations per prefilled token: about 12 live copies of the 4 residual streams and of the six routed experts'
# inputs and outputs in bf16. An estimate; the engine itself reserves 1.5 MiB.
ACTIVATION_PER_TOKEN = 0.3 * MIB
GRAPH_PER_REQUEST = 2 * MIB  # the engine's own reserve per captured request
WORKSPACE = 512 * MIB  # the engine's constant for backend metadata

Role = Literal["prefill", "decode", "single"]


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

    def count(self, ratio: int) -> int:
        """Layers that compress by a ratio."""
        return sum(1 for found in self.ratios if found == ratio)


def shape_of(config: Mapping[str, Any], total_bytes: int | None = None) -> Shape | None:
    """The shape in a config.json; None for another kind of model."""
    if config.get("model_type") != "deepseek_v4" or not config.get("compress_ratios"):
        return None
    names = {
        "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
        "head_dim": "head_dim", "rope_dim": "qk_rope_head_dim", "q_lora": "q_lora_rank", "o_groups": "o_groups",
        "o_lora": "o_lora_rank", "index_heads": "index_n_heads", "index_dim": "index_head_dim",
        "experts": "n_routed_experts", "shared_experts": "n_shared_experts", "top_k": "num_experts_per_tok",
        "expert_inner": "moe_intermediate_size", "vocab": "vocab_size", "streams": "hc_mult",
    }  # fmt: skip
    found = {ours: int(config[theirs]) for ours, theirs in names.items() if theirs in config}
    layers = found.get("layers", Shape().layers)
    return Shape(**found, ratios=tuple(config["compress_ratios"][:layers]), total_bytes=total_bytes)


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
    """Weights on one card."""
    expert = 3 * s.hidden * s.expert_inner * (0.5 + 1 / 32)  # MXFP4: 4 bits, one scale byte for 32
    ratios = (*s.ratios, 0) if speculative else s.ratios  # the draft is one more layer without compression
    dense = [_dense_layer(s, ratio) for ratio in ratios]
    split = sum(part for part, _ in dense) + len(ratios) * s.experts * expert + 2 * s.vocab * s.hidden * 2
    return split / tensor_parallel + sum(every for _, every in dense)


def checkpoint_bytes(s: Shape) -> float:
    """Size of the checkpoint that the shape implies, its draft layer included; wo_a is fp8 on disk."""
    on_disk = (s.layers + 1) * s.o_lora * s.heads * s.head_dim
    return weight_bytes(s, 1, speculative=True) - on_disk


@dataclass(frozen=True, slots=True)
class Load:
    """What the settings ask of one server."""

    role: Role
    tensor_parallel: int
    fraction: float
    max_running: int
    chunk: int
    speculative: bool = False

    @property
    def draft_tokens(self) -> int:
        """Tokens that one step may add to a request."""
        return 4 if self.speculative else 1

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
    """Sliding-window slots: what the running requests can hold, plus tails of cached prefixes."""
    trailing = _WINDOW + _EVICTION_INTERVAL * load.draft_tokens + PAGE
    allocated = 2 * load.draft_tokens if load.speculative else PAGE
    held = (trailing + allocated) * load.max_running
    if load.role == "decode":
        held += (_WINDOW + PAGE) * load.extra_slots
    else:
        held += 2 * load.chunk + PAGE
    tails = 0 if load.role == "decode" else 4 * load.max_running * (_WINDOW + PAGE)
    return -(-(held + tails) // PAGE) * PAGE


def fixed_bytes(s: Shape, load: Load) -> float:
    """KV bytes that don't grow with context: sliding windows, and the compressors' states."""
    ring = 16 if load.speculative else 8
    state = ring / PAGE * 4 * (s.head_dim + s.index_dim) * _FP32
    per_slot = (_paged(PAGE) * len(s.ratios) + state * s.count(4)) * _draft_inflation(s, load)
    ring_128 = 256 if load.speculative else 128
    rows = (load.max_running + load.extra_slots + 1) * ring_128 + ring_128 + 1
    pending = -(-rows // 128) * 128 * 2 * s.head_dim * _FP32 * s.count(128)
    return window_slots(load) * per_slot + pending


def pool_tokens(s: Shape, load: Load, budget: float) -> int:
    """Tokens of KV that a budget holds; 0 when not even the fixed part fits."""
    tokens = int(max(budget - fixed_bytes(s, load), 0) / bytes_per_token(s, load))
    return tokens // PAGE * PAGE


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
    return Estimate(load, memory - DRIVER_RESERVED, weights, kv, runtime, headroom, tokens)


def _activations(load: Load) -> float:
    tokens = max(load.max_running * load.draft_tokens, 2048) if load.role == "decode" else load.chunk
    return tokens * ACTIVATION_PER_TOKEN


def needed_fraction(s: Shape, load: Load, memory: float, tokens: int) -> float:
    """The memory fraction that holds so many tokens of KV, rounded up to a hundredth."""
    free = memory - DRIVER_RESERVED - CONTEXT
    need = weight_bytes(s, load.tensor_parallel, speculative=load.speculative)
    need += fixed_bytes(s, load) + (tokens + PAGE) * bytes_per_token(s, load)
    return -(-need * 100 // free) / 100


def pool_tokens_2026_04(s: Shape, budget: float) -> int:
    """Tokens under the rule of the first engines that had this model, without speculation.

    They sized the sliding-window pool as a tenth of the tokens and kept both compressors' states for each of its
    windows, so a token cost four times what it costs now. Kept because the only capacity ever read from such a
    machine (2,581,504 tokens) was read under this rule: see docs/adr/0401-memory-model.md.
    """
    layers = len(s.ratios) + 1  # the draft layer was counted, loaded or not
    slot = s.head_dim - s.rope_dim + 2 * s.rope_dim + 8
    states = 8 / _WINDOW * 4 * (s.head_dim + s.index_dim) * s.count(4) + 128 / _WINDOW * 2 * s.head_dim * s.count(128)
    window = slot * layers + states * _FP32
    token = s.count(4) * (slot + s.index_dim + 4) / 4 + s.count(128) * slot / 128
    return int(budget / (0.1 * window + token)) // PAGE * PAGE
