"""The checkpoint's names against those of transformers' DeepseekV4ForCausalLM, and the format that each tensor has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpu.model.shape import Shape

Format = Literal["fp8", "bf16", "f32", "i32"]


@dataclass(frozen=True, slots=True)
class Name:
    """One tensor, experts apart: `own` in the checkpoint, `theirs` in transformers."""

    own: str
    theirs: str
    format: Format


ATTENTION: tuple[tuple[str, str, Format], ...] = (
    ("wq_a.weight", "q_a_proj.weight", "fp8"),
    ("wq_b.weight", "q_b_proj.weight", "fp8"),
    ("wkv.weight", "kv_proj.weight", "fp8"),
    ("wo_a.weight", "o_a_proj.weight", "fp8"),
    ("wo_b.weight", "o_b_proj.weight", "fp8"),
    ("q_norm.weight", "q_a_norm.weight", "bf16"),
    ("kv_norm.weight", "kv_norm.weight", "bf16"),
    ("attn_sink", "sinks", "f32"),
)
COMPRESSOR: tuple[tuple[str, str, Format], ...] = (
    ("ape", "position_bias", "f32"),
    ("norm.weight", "kv_norm.weight", "f32"),
    ("wkv.weight", "kv_proj.weight", "bf16"),
    ("wgate.weight", "gate_proj.weight", "bf16"),
)
MIXING = ("fn", "base", "scale")
SHARED = (("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj"))


def names(shape: Shape) -> Iterator[Name]:
    """Every tensor but the routed experts, in the order of the layers."""
    yield Name("embed.weight", "model.embed_tokens.weight", "bf16")
    for layer, ratio in enumerate(shape.ratios):
        yield from layer_names(shape, layer, ratio)
    yield Name("norm.weight", "model.norm.weight", "bf16")
    yield Name("head.weight", "lm_head.weight", "bf16")
    for part in MIXING:
        yield Name(f"hc_head_{part}", f"model.hc_head.hc_{part}", "f32")


def layer_names(shape: Shape, layer: int, ratio: int) -> Iterator[Name]:
    own, theirs = f"layers.{layer}", f"model.layers.{layer}"
    for ours, name, format_ in ATTENTION:
        yield Name(f"{own}.attn.{ours}", f"{theirs}.self_attn.{name}", format_)
    if ratio:
        yield from compressor(f"{own}.attn.compressor", f"{theirs}.self_attn.compressor")
    if ratio == 4:
        ours, name = f"{own}.attn.indexer", f"{theirs}.self_attn.compressor.indexer"
        yield Name(f"{ours}.wq_b.weight", f"{name}.q_b_proj.weight", "fp8")
        yield Name(f"{ours}.weights_proj.weight", f"{name}.scorer.weights_proj.weight", "bf16")
        yield from compressor(f"{ours}.compressor", name)
    yield Name(f"{own}.attn_norm.weight", f"{theirs}.input_layernorm.weight", "bf16")
    yield Name(f"{own}.ffn_norm.weight", f"{theirs}.post_attention_layernorm.weight", "bf16")
    for part in MIXING:
        yield Name(f"{own}.hc_attn_{part}", f"{theirs}.attn_hc.{part}", "f32")
        yield Name(f"{own}.hc_ffn_{part}", f"{theirs}.ffn_hc.{part}", "f32")
    yield Name(f"{own}.ffn.gate.weight", f"{theirs}.mlp.gate.weight", "bf16")
    if layer < shape.hash_layers:
        yield Name(f"{own}.ffn.gate.tid2eid", f"{theirs}.mlp.gate.tid2eid", "i32")
    else:
        yield Name(f"{own}.ffn.gate.bias", f"{theirs}.mlp.gate.e_score_correction_bias", "f32")
    for ours, name in SHARED:
        yield Name(f"{own}.ffn.shared_experts.{ours}.weight", f"{theirs}.mlp.shared_experts.{name}.weight", "fp8")


def compressor(own: str, theirs: str) -> Iterator[Name]:
    for ours, name, format_ in COMPRESSOR:
        yield Name(f"{own}.{ours}", f"{theirs}.{name}", format_)
