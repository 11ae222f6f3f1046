"""The tiny model's shape: each width that a kernel sees is DeepSeek-V4-Flash's own; layers and vocabulary are not.

Layers: window only, window only, then c4 and c128 in turn, as in Flash: each kind of attention, and hash routing
(the first three layers) as well as scored routing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """heads: 16 is what a rank of TP4 sees, 64 the whole model."""

    heads: int = 16
    layers: int = 6
    experts: int = 256
    expert_width: int = 512  # Flash's 2048, at TP4
    hidden: int = 4096
    head_dim: int = 512
    rope_dim: int = 64
    q_rank: int = 1024
    o_rank: int = 1024
    index_heads: int = 64
    index_dim: int = 128
    index_topk: int = 512
    window: int = 128
    streams: int = 4
    vocabulary: int = 1536
    active: int = 6
    hash_layers: int = 3
    context: int = 65536
    eps: float = 1e-6
    # How often the model that is trained is repeated in this one (model/widen.py); they divide the widths above.
    tiles: int = 16
    rank_tiles: int = 8
    index_tiles: int = 8

    def narrow(self) -> Shape:
        """The shape that is trained: the same heads, head widths and layers, a residual stream of 256."""
        return replace(
            self,
            hidden=self.hidden // self.tiles,
            q_rank=self.q_rank // self.rank_tiles,
            o_rank=self.o_rank // self.rank_tiles,
            index_heads=self.index_heads // self.index_tiles,
            tiles=1,
            rank_tiles=1,
            index_tiles=1,
        )

    @property
    def groups(self) -> int:
        """Output groups of eight heads each."""
        return max(1, self.heads // 8)

    @property
    def ratios(self) -> tuple[int, ...]:
        """Tokens in one compressed entry, by layer; 0: window only."""
        return ((0, 0) + (4, 128) * self.layers)[: self.layers]

    def config(self) -> dict[str, Any]:
        """config.json, in the words of the published checkpoint."""
        return {
            "architectures": ["DeepseekV4ForCausalLM"],
            "bos_token_id": 1512,
            "compress_ratios": [*self.ratios, 0],
            "compress_rope_theta": 160000.0,
            "eos_token_id": 1513,
            "hc_eps": 1e-6,
            "hc_mult": self.streams,
            "hc_sinkhorn_iters": 20,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "index_head_dim": self.index_dim,
            "index_n_heads": self.index_heads,
            "index_topk": self.index_topk,
            "kv_lora_rank": self.head_dim,
            "max_position_embeddings": self.context,
            "model_type": "deepseek_v4",
            "moe_intermediate_size": self.expert_width,
            "n_routed_experts": self.experts,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_attention_heads": self.heads,
            "num_experts_per_tok": self.active,
            "num_hash_layers": self.hash_layers,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": 1,
            "num_nextn_predict_layers": 0,
            "o_groups": self.groups,
            "o_lora_rank": self.o_rank,
            "q_lora_rank": self.q_rank,
            "qk_rope_head_dim": self.rope_dim,
            "quantization_config": {
                "activation_scheme": "dynamic",
                "fmt": "e4m3",
                "quant_method": "fp8",
                "scale_fmt": "ue8m0",
                "weight_block_size": [128, 128],
            },
            "rms_norm_eps": self.eps,
            "rope_scaling": {
                "beta_fast": 32,
                "beta_slow": 1,
                "factor": 16,
                "original_max_position_embeddings": 4096,
                "type": "yarn",
            },
            "rope_theta": 10000.0,
            "routed_scaling_factor": 1.5,
            "scoring_func": "sqrtsoftplus",
            "sliding_window": self.window,
            "swiglu_limit": 10.0,
            "tie_word_embeddings": False,
            "topk_method": "noaux_tc",
            "torch_dtype": "bfloat16",
            "vocab_size": self.vocabulary,
        }
