"""The model's dimensions, from its own config.json, and what its weights take. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dsv4_pd.plan.model import checkpoint
from dsv4_pd.plan.model import config as model_config

FP32 = 4  # bytes
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
    """The shape in a config.json; None for another kind of model, or where a value is odd (plan/model/config.py)."""
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
        + 2 * (2 + s.streams) * s.streams * s.streams * s.hidden * FP32  # hyper-connections
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
