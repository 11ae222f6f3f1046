"""Target → replacement: everything that this plugin changes in SGLang, and the engine that it was written against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ENGINE_VERSION = "0.5.23"


@dataclass(frozen=True, slots=True)
class Hook:
    """name: for records and logs · target: dotted path · parameters: the engine's, in order · adapter: in adapters.py.

    required: the engine reaches the target in every DeepSeek-V4 forward on sm_120, so readiness may insist on it.
    """

    name: str
    target: str
    parameters: tuple[str, ...]
    adapter: str
    required: bool = False


HOOKS = (
    Hook(
        name="sparse_mla_decode",
        target="sglang.kernels.ops.attention.flash_mla_sm120.flash_mla_with_kvcache_sm120",
        parameters=("kwargs",),
        adapter="sparse_mla",
        required=True,
    ),
    # indexer_logits and indexer_topk are not here: docs/adr/0101 says why
    Hook(
        name="mhc_post_pre",
        target="sglang.kernels.ops.layernorm.mhc.mhc_fused_post_pre",
        parameters=(
            "x",
            "residual",
            "post_layer_mix",
            "comb_res_mix",
            "fn",
            "hc_scale",
            "hc_base",
            "rms_eps",
            "hc_pre_eps",
            "hc_sinkhorn_eps",
            "hc_post_mult_value",
            "sinkhorn_repeat",
            "n_splits",
            "tile_n",
            "norm_weight",
            "norm_eps",
        ),
        adapter="mhc",
    ),
)

Around = Callable[..., Any]
